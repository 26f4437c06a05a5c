"""The event loop: what comes first, when a policy is asked, how copies of a job share its steps."""

from collections import defaultdict

import pytest

from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.tenure import Epochs, Leases, Rounds
from tests.lyra_opt.simulation.replays import borrowing, job_from, job_of, lending, workload_of
from tests.lyra_opt.simulation.steps import FirstFits
from tests.tables import tables

TABLES = tables(__file__)


class Noting(FirstFits):
    """Starts whoever fits, by submission, and takes note of what it is told."""

    def __init__(self):
        super().__init__("noting")
        self.told = defaultdict(list)

    def note(self, view, what, run=None):
        self.told[view.now_s].append(what if run is None else f"{what} {run.job.id}")

    def waits(self, view, run):
        super().waits(view, run)
        self.note(view, "waits", run)

    def gives_back(self, view, run):
        self.note(view, "gives back", run)

    def completes(self, view, run):
        self.note(view, "completes", run)

    def servers_moved(self, view):
        self.note(view, f"{view.loans.on_loan} on loan")

    def decide(self, view):
        self.note(view, "decides")
        self.start_who_fits(view)


def run_policy(policy, *jobs, on_loan, tenure=None):
    """Run jobs on two GPUs, beside two servers of two that can be borrowed."""
    cluster, plan = borrowing(2, 2, 2), lending(*on_loan)
    return Kernel(workload_of(*jobs), cluster, policy, plan=plan, tenure=tenure).run()


@pytest.mark.parametrize("name", TABLES)
def test_order(name):
    """At one moment, what ends comes before what moves, and that before what begins.

    Then the policy is asked, once.
    """
    case, policy = TABLES[name], Noting()
    tenure = Leases(**case["leases"]) if "leases" in case else None
    jobs = [job_from(*fields) for fields in case["jobs"]]
    run_policy(policy, *jobs, on_loan=case["on_loan"], tenure=tenure)
    assert [[at_s, ", ".join(what)] for at_s, what in policy.told.items()] == case["told"]


class StopsForThem(FirstFits):
    """Asks twice for all who wait, the second time when who runs was stopped."""

    def decide(self, view):
        for again in (False, True):
            self.start_who_fits(view)
            if self.waiting and not again and view.now_s == 10:
                view.stop(view.runs[0])


@pytest.mark.parametrize(
    ("policy", "on_loan", "start_s"), [(StopsForThem("stops"), (0,), 10), (Noting(), (0, 1), 100)]
)
def test_who_found_no_room_is_tried_again(policy, on_loan, start_s):
    """As soon as GPUs come free, in the same decision too, or are lent."""
    jobs = [
        job_of("first", 0, 200, 2),
        job_of("second", 10, 50, 2, fungible=True),
        job_of("third", 10, 50, 2, fungible=True),
    ]
    simulation = run_policy(policy, *jobs, on_loan=on_loan)
    assert simulation.runs[1].start_s == start_s


def test_rounds_begin_at_multiples():
    """Whatever is between them is decided as the next one begins."""
    rounds = Rounds(round_s=0.1, restart_s=0.0, merge_s=0.0)
    for number in range(1000):
        assert rounds.round_from(number * 0.1) == number
        assert rounds.decides_at_s(number * 0.1 + 0.05) == (number + 1) * 0.1
        assert Epochs(epoch_s=0.1).decides_at_s(number * 0.1 + 0.05) == (number + 1) * 0.1
