"""What composed schemes do beside the replays by hand: measured jobs, refusals, their parts."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.core.result import SolveResult, Status
from lyra_opt.reclaim.instance import Solution
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.decisions import DecisionError, ReclaimRule
from lyra_opt.simulation.policies.parts import LoanRule
from lyra_opt.simulation.scheme import find_scheme, prepare
from lyra_opt.simulation.series import CaptureObserver
from tests.lyra_opt.simulation.replays import (
    EVERY_EVENT,
    borrowing,
    completions,
    job_of,
    lending,
    replay,
    workload_of,
)

BORROWING = borrowing(1, 1, 1)


# What is refused.


GIANT, SMALL = job_of("x", 0, 1, 3, gpus_per_worker=3), job_of("x", 0, 1)
TWO = Cluster.of_servers(2, gpus_per_server=5)


@pytest.mark.parametrize(
    ("job", "scheme", "cluster", "plan", "message"),
    [
        (GIANT, "fifo", TWO, None, "job x needs 3 workers of 3 GPUs, but cluster 2x5 has 10 GPUs"),
        (SMALL, "lyra", BORROWING, None, "scheme lyra borrows servers, but no loan plan"),
        (
            SMALL,
            "lyra",
            BORROWING,
            lending(1, 2),
            "lends 2 servers, but the cluster has only 1 inf",
        ),
    ],
)
def test_what_never_runs_is_refused(job, scheme, cluster, plan, message):
    """A job that never fits; a plan that is missing, or lends more servers than there are."""
    with pytest.raises(UserError, match=message):
        replay([job], cluster, scheme, plan=plan)


def test_a_scheme_that_borrows_needs_no_plan_without_servers_to_lend():
    assert completions(replay([job_of("a", 0, 1)], Cluster.of_servers(1), "lyra")) == [1]


# What is captured.


def test_decisions_can_be_captured_and_solved_again():
    """Each is an instance that stands alone, named by kind and time."""
    captured = []
    jobs = [job_of("A", 0, 600, max_workers=3, fungible=True)]
    observer = CaptureObserver(lambda *found: captured.append(found), {"reclaim", "allocation"})
    given = {"plan": lending(2, 1), "options": EVERY_EVENT, "observers": [observer]}
    replay(jobs, borrowing(1, 2, 2), "lyra", **given)
    assert [kind for kind, _ in captured][:2] == ["allocation", "reclaim"]
    reclaim = captured[1][1]
    assert reclaim.name == "reclaim-at-100-s"
    assert reclaim.reclaim_servers == 1
    assert [(group.server, group.base, group.flexible) for group in reclaim.jobs[0].workers] == [
        ("inference-0", 1, 0),
        ("inference-1", 0, 2),
    ]


# Parts that are ours.


@pytest.mark.parametrize(
    ("left_h", "admits", "prefers"), [(0.5, True, True), (0.6, True, False), (2.1, False, False)]
)
def test_limits_of_the_loan_rule(left_h, admits, prefers):
    """Both are in hours and include the limit."""
    rule = LoanRule(longest_h=2.0, first_h=0.5)
    assert rule.admits(left_h * 3600.0) is admits
    assert rule.prefers(left_h * 3600.0) is prefers


def test_a_part_is_a_flag_or_a_table_of_its_figures():
    """So a scenario switches it off, or says what is other than by default."""
    ours = find_scheme("lyra-reserve")
    changed = ours.with_parameters({"run_time_caps": False, "loan_rule": {"longest_h": 3}})
    assert (changed.run_time_caps, changed.loan_rule) == (None, LoanRule(longest_h=3))
    assert changed.with_parameters({"run_time_caps": True, "loan_rule": True}) == ours


def test_all_parts_off_is_lyra_with_least_loss():
    """What a scheme without them decides is as it was before there were any."""
    off = dict.fromkeys(("run_time_caps", "loan_rule", "voluntary_preemption"), False)
    bare = find_scheme("lyra-reserve").with_parameters(off | {"shrinks_longer_only": False})
    lyra = find_scheme("lyra").with_parameters({"reclaimer": "exact", "weighs_lost_work": True})
    same = {"name": "same", "summary": "", "paper": ""}
    assert replace(bare, **same) == replace(lyra, **same)


TWICE = Solution(("inference-2", "inference-2"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            {"status": Status.FEASIBLE, "solution": TWICE, "objective": 0},
            "odd had to choose 2 different servers, but chose 1",
        ),
        ({"status": Status.UNKNOWN, "message": "out of time"}, "odd chose no .*: out of time"),
    ],
)
def test_too_few_servers_chosen_is_an_error(answer, message, monkeypatch):
    """A solver does not grade itself."""
    cluster = Cluster.of_servers(1, inference_servers=3)
    kernel = prepare(workload_of(job_of("a", 0, 1)), cluster, "lyra", plan=lending(3))
    kernel.hosts.lend(kernel.cluster.pools[-1].hosts)
    rule = ReclaimRule("lyra-greedy")
    assert len(rule.choose(kernel, 2, kernel.hosts.lent(), [])) == 2
    odd = SimpleNamespace(name="odd", solve=lambda *_, **__: SolveResult(**answer))
    monkeypatch.setattr(rule, "_solver", odd)
    with pytest.raises(DecisionError, match=message):
        rule.choose(kernel, 2, kernel.hosts.lent(), [])
