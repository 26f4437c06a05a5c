"""Any cluster x speed x tenure x policy runs to its end and conserves what must be conserved.

What is drawn and what is checked: `tests.lyra_opt.simulation.product`. A failure names the seed,
and `python -m tests.lyra_opt.simulation.product SEED` replays it.
"""

from dataclasses import replace

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.cluster import INFERENCE_GPU, Cluster, GpuType
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import measure
from lyra_opt.simulation.policy import QueuePolicy
from lyra_opt.simulation.scheme import prepare, simulate
from lyra_opt.simulation.tenure import Leases, Rounds
from lyra_opt.simulation.topology import Rack, Topology
from tests.draws import sampled
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.product import (
    CLUSTERS,
    POLICIES,
    TENURES,
    failure_of,
    kind_of,
    policy_kind,
    require_same,
)
from tests.lyra_opt.simulation.replays import borrowing, job_of, lending, replay, workload_of

SEEDS = range(12_000)
SAMPLE = SEEDS[5::17]
"""Every policy is in it, since 17 is prime and does not divide their number."""

MOST_NAMED = 10


def run_all(seeds):
    """Run seeds; fail with those that fail, and why."""
    outcomes = [failure_of(seed) for seed in seeds]
    failures = [failure for failure, outcome in outcomes if outcome is None]
    if failures:
        named = "\n".join(failures[:MOST_NAMED])
        pytest.fail(f"{len(failures)} of {len(outcomes)} fail, such as\n{named}", pytrace=False)
    refusals = sum(outcome.kernel is None for _, outcome in outcomes)
    assert 3 * refusals < len(outcomes)


def test_every_part_is_in_the_sample():
    """Every policy, cluster and tenure."""
    kinds = [kind_of(seed) for seed in SAMPLE]
    parts = (set(column) for column in zip(*(kind[:3] for kind in kinds), strict=True))
    assert tuple(parts) == (set(CLUSTERS), set(TENURES), set(POLICIES))


@pytest.mark.parametrize("part", sampled([(part,) for part in range(8)], 4))
def test_a_sample_of_all_combinations(part):
    """Runs are sound, and the same each time, whoever looks on."""
    run_all(SAMPLE[part::8])


@pytest.mark.slow
def test_all_combinations():
    """Takes three minutes or so."""
    run_all(SEEDS)


# Found by it, as small as can be.


ONE_OF_EACH = borrowing(1, 1, 1)


def replayed_and_passed_over(job, cluster, **given):
    """Run a job alone twice, and check that leases which are passed over change nothing."""
    found = []
    for repeats_itself in (False, True):
        kernel = prepare(workload_of(job), cluster, "no-wait", **given)
        assert kernel.policy.repeats_itself
        kernel.policy.repeats_itself = repeats_itself
        found.append(kernel.run())
    require_same(*found)
    return found


def test_leases_are_not_passed_over_when_servers_move():
    """Loans end, and begin, while the last job runs."""
    job = job_of("x", 0, 200, fungible=True, checkpoints=True)
    leases = Leases(lease_s=5, hand_over_s_per_gpu=0)
    plan = lending(1, 1, 0, interval_s=50)
    found, _ = replayed_and_passed_over(job, ONE_OF_EACH, plan=plan, tenure=leases)
    assert found.totals.there_gpu_s == [200, 100]


@pytest.mark.parametrize("leases", [14, 3048])
def test_a_job_that_fills_its_last_lease_ends_in_it(leases):
    """Whether leases are replayed or passed over, although 1.1 steps a lease are rounded."""
    job = in_rounds.measured("x", leases * 1.1, release_s=17.3, a=1.1)
    tenure = Leases(lease_s=1, hand_over_s_per_gpu=0.5)
    found = replayed_and_passed_over(job, in_rounds.cluster_of({"a": 1}), tenure=tenure)
    assert [kernel.runs[0].allocations for kernel in found] == [leases, leases]


def test_a_worker_that_fits_no_server_on_which_it_runs_is_refused():
    """It would wait for ever."""
    cluster = in_rounds.cluster_of({"a": 2}, {"b": 1}, {"b": 1})
    gang = in_rounds.gang("x", 10, gang=2, b=1.0)
    with pytest.raises(UserError, match="job x"):
        replay([job_of("x", 0, 10, gpus_per_worker=2, measured=gang)], cluster, "fifo")


@pytest.mark.parametrize(
    "name", ["best-fit", "no-wait", "priced-placement", "gavel-throughput", "hadar", "yarn-cs"]
)
def test_gangs_that_must_not_be_spread_where_distance_counts(name):
    """On one type of GPUs it has no speed across machines, on the other it has."""
    topology = Topology(name="t", racks=(Rack(machines=2, gpus_per_machine=1),) * 2)
    types = (GpuType(name="a"), GpuType(name="b"))
    cluster = Cluster.of_racks(topology, on_racks.slowdowns_of((1, 1, 1)), gpu_types=types)
    job = in_rounds.measured("x", 10, gang=2, a=1.0, b=1.0, spread={"a": 0.0, "b": 1.0})
    tenure = FREE if policy_kind(name) == "rounds" else Leases()
    found = simulate(workload_of(replace(job, model="m")), cluster, name, tenure=tenure)
    assert found.runs[0].completion_s == 10


FREE = Rounds(restart_s=0, merge_s=0)
BORROWING = borrowing(1, 4, 2, INFERENCE_GPU)


def test_measured_jobs_borrow_as_many_gpus_as_were_measured():
    """Their speed there is that of their gang, without replicas; spread they have none."""
    rates = {"V100": 1.0, "T4": 1.0, "spread": {"V100": 1.0, "T4": 0.0}}
    jobs = [in_rounds.measured(name, 10, fungible=name == "y", **rates) for name in "xy"]
    found = replay(jobs, BORROWING, "lyra-loaning", plan=lending(4))
    assert [(run.completion_s, run.held_gpu_s) for run in found.runs] == [(10, 10)] * 2


@pytest.mark.parametrize("name", ["hadar", "priced-progress"])
def test_fungible_jobs_are_on_one_kind_of_gpus(name):
    """Rules that mix types must not mix own and borrowed ones for them."""
    jobs = [job_of("z", 0, 500), job_of("x", 0, 50, 2, fungible=True)]
    found = replay(jobs, borrowing(2, 1, 1), name, plan=lending(1, interval_s=1000))
    _, lent_gpu_s = found.totals.held_gpu_s
    ran_on_loan = found.runs[1].ran_on_loan
    assert lent_gpu_s == (found.runs[1].held_gpu_s if ran_on_loan else 0)


class MovesAway(QueuePolicy):
    """Moves whoever is on a server that is called back, from the first one to the second."""

    def decide(self, view):
        for run in list(self.waiting.values()):
            self.start(view, run, view.reserve(run, {1: 2}))

    def reclaim(self, view, count):
        run = view.runs[0]
        parts = view.reserve(run, {2: 2})
        view.lift(run)
        view.put(run, parts)
        return [1]


def test_jobs_that_move_at_a_recall_are_no_collateral():
    """Nothing is vacated but what is called back."""
    jobs = workload_of(job_of("x", 0, 300, 2, fungible=True))
    kernel = Kernel(jobs, borrowing(2, 2, 2), MovesAway("moves-away"), plan=lending(2, 1)).run()
    assert kernel.totals.vacated_gpus == 2
    assert measure(kernel).collateral_share == 0
