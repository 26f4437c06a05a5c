"""Figures worked out by hand, and the check that GPU-seconds, work and time are conserved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lyra_opt.simulation.cluster import INFERENCE_GPU, Cluster, GpuType, LoanPlan, Server
from lyra_opt.simulation.metrics import isolated_rate, measure, require_conserved
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import borrowing, job_of, lending, replay

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.kernel import Kernel

BASE_S = 1000.0
ONE_AFTER_THE_OTHER = [job_of("a", BASE_S, 100, 2), job_of("b", BASE_S, 100, 2)]


def test_times_without_an_inference_cluster() -> None:
    """Waits 0 and 100, completion times 100 and 200; percentiles lie between, linearly."""
    cluster = Cluster.of_servers(1, gpus_per_server=4)
    assert measure(replay(ONE_AFTER_THE_OTHER, cluster, "fifo")).queue_mean_s == 0, "both fit"
    cluster = Cluster.of_servers(1, gpus_per_server=3)
    metrics = measure(replay(ONE_AFTER_THE_OTHER, cluster, "fifo"))
    assert (metrics.jobs, metrics.finished) == (2, 2)
    assert (metrics.queue_mean_s, metrics.queue_p50_s) == (50, 50)
    assert (metrics.queue_p95_s, metrics.queue_p99_s) == pytest.approx((95, 99))
    assert metrics.queue_max_s == 100
    assert (metrics.jct_mean_s, metrics.jct_p50_s) == (150, 150)
    assert (metrics.jct_p95_s, metrics.jct_p99_s) == pytest.approx((195, 199))
    assert (metrics.jct_min_s, metrics.jct_max_s) == (100, 200)
    assert metrics.makespan_s == 200, "from the first submission on"
    assert metrics.gpu_usage == metrics.overall_usage == pytest.approx(2 / 3)
    assert (metrics.preemptions, metrics.loans, metrics.reclaims) == (0, 0, 0)
    assert metrics.collateral_share is None
    assert metrics.loan_usage is None


def test_usage_counts_what_serves_inference() -> None:
    """Training 400 of 400 GPU-seconds, inference half of 4 GPUs for 200 s."""
    cluster = borrowing(2, 2, 2, INFERENCE_GPU)
    plan = lending(0, busy=0.5)
    metrics = measure(replay(ONE_AFTER_THE_OTHER, cluster, "fifo", plan=plan))
    assert metrics.gpu_usage == 1
    assert metrics.overall_usage == pytest.approx((400 + 400) / (400 + 800))


def test_figures_of_loans() -> None:
    """A job on loan is preempted once: its waits add up, and its GPUs count as long as held."""
    cluster = borrowing(1, 2, 2)
    jobs = [job_of("trains", 0, 400), job_of("borrows", 10, 37, fungible=True)]
    plan = lending(1, 0, 1, interval_s=40)
    simulation = replay(jobs, cluster, "lyra-loaning", plan=plan)
    metrics = measure(simulation)
    # On loan from 10 to 40 s and, after 40 s in the queue, from 80 to 180 s (63 s of them lost).
    assert metrics.queue_mean_s == 20
    assert metrics.jct_mean_s == (400 + 170) / 2
    assert (metrics.preemptions, metrics.preemptions_per_submission) == (1, 0.5)
    assert metrics.lost_gpu_s == 30
    assert metrics.restarting_s == 63
    assert (metrics.loans, metrics.reclaims, metrics.returned_servers) == (2, 1, 1)
    assert metrics.collateral_share == 0
    assert metrics.loan_usage == pytest.approx(130 / (2 * (40 + 320)))
    assert metrics.gpu_usage == 1
    assert metrics.gpu_usage_by_type == {"V100": 1}
    assert metrics.overall_usage == pytest.approx((400 + 130) / (400 + 4 * 400))


def test_usage_follows_the_demand_interval_by_interval() -> None:
    """Each share holds for its interval, the last one from there on."""
    cluster = Cluster.of_servers(1, gpus_per_server=2, inference_servers=1)
    plan = LoanPlan(interval_s=60, on_loan=(0,), busy_share=(1.0, 0.5, 0.25))
    simulation = replay(ONE_AFTER_THE_OTHER, cluster, "lyra", plan=plan)
    assert simulation.totals.serving_gpu_s == pytest.approx(8 * (60 + 30 + 20))


# On racks.


def test_fragmentation() -> None:
    """Machines partly free, in the mean over time, and the free GPUs that are on them."""
    # Four machines of two GPUs; x and y hold one GPU of a machine each for 10 and 30 s.
    places = {"x": {0: 1}, "y": {3: 1}}
    rule = on_racks.Scripted(lambda state: {name: places[name] for name in state.waiting.ids})
    jobs = [on_racks.job("x", 10), on_racks.job("y", 30)]
    metrics = measure(on_racks.simulate(jobs, policy=rule))
    assert metrics.makespan_s == 30
    assert metrics.fragmented_machines_mean == pytest.approx((2 * 10 + 1 * 20) / (4 * 30))
    assert metrics.stranded_share == pytest.approx((2 * 10 + 1 * 20) / (6 * 10 + 7 * 20))
    assert metrics.cru == pytest.approx((2 * 10 + 1 * 20) / (4 * 30))
    assert metrics.gpu_usage == metrics.computing_usage == pytest.approx(40 / 240)
    assert metrics.communication_share == metrics.hand_over_share == 0


def test_communication() -> None:
    """What is not computing while a gang runs is communication; hand-over is not."""
    jobs = [on_racks.job("x", 60, gang=4)]
    metrics = measure(on_racks.simulate(jobs, hand_over_s_per_gpu=1.0))
    assert metrics.makespan_s == 124
    assert metrics.gpu_s == 4 * 120
    assert metrics.computing_gpu_s == pytest.approx(4 * 60)
    assert metrics.communication_share == pytest.approx(0.5)
    assert metrics.communication_s == pytest.approx(4 * 60)
    assert metrics.hand_over_share == pytest.approx(4 * 4 / (8 * 124))
    assert metrics.allocations_by_tier == {"machine": 0, "rack": 2, "network": 0}
    assert metrics.gpu_s_by_tier == {"machine": 0, "rack": 480, "network": 0}
    assert (metrics.allocations, metrics.losses, metrics.preemptions) == (2, 1, 0)
    assert metrics.migrations == 0
    assert (metrics.queue_mean_s, metrics.queue_max_s, metrics.jct_max_s) == (4, 4, 124)


# Of unlike GPUs.


def test_fairness() -> None:
    """Rho is the JCT over that on an n-th part, n the mean number of jobs there meanwhile."""
    jobs = [in_rounds.gang("x", 10), in_rounds.gang("y", 10)]
    simulation = in_rounds.simulate(jobs, in_rounds.cluster_of({"a": 1}))
    # x: 10 s with 2 jobs there, alone on a half 20 s; y: 20 s, 1.5 jobs, 15 s.
    metrics = measure(simulation)
    assert metrics.fairness_max == pytest.approx(20 / 15)
    assert metrics.fairness_mean == pytest.approx((10 / 20 + 20 / 15) / 2)


def test_fairness_of_jobs_that_were_not_measured() -> None:
    """The same jobs, described by their work."""
    cluster = Cluster.of_servers(1, gpus_per_server=1)
    metrics = measure(replay([job_of("x", 0, 10), job_of("y", 0, 10)], cluster, "fifo"))
    assert metrics.fairness_max == pytest.approx(20 / 15)
    assert metrics.fairness_mean == pytest.approx((10 / 20 + 20 / 15) / 2)


@pytest.mark.parametrize(
    ("gang", "jobs", "rate"),
    [
        (in_rounds.gang("x", 1, a=4.0, b=2.0), 1, 3),
        (in_rounds.gang("x", 1, a=4.0, b=2.0), 4, 3),
        (in_rounds.gang("x", 1, a=4.0), 8, 1),
        (in_rounds.gang("x", 1, gang=2, a=4.0), 8, 0.5),
    ],
)
def test_isolated_rate(gang: in_rounds.GangJob, jobs: int, rate: float) -> None:
    """Shares of types add up to 1 at most, and types that cannot run the job give nothing."""
    speed = Speed(in_rounds.cluster_of({"a": 2}, {"b": 2}))
    assert isolated_rate(Job.of_gang(gang), speed, jobs) == rate


# What jobs ask for, and what they cost.

PRICED = Cluster(
    name="priced",
    gpu_types=(
        GpuType(name="dear", price_per_hour=3.6),
        GpuType(name="cheap", relative_speed=0.5, price_per_hour=0.9),
    ),
    servers=(Server(id="d", gpus={"dear": 2}), Server(id="c", gpus={"cheap": 2})),
)


def test_what_nobody_asks_for_is_not_counted() -> None:
    """Without weights, deadlines and prices there is nothing to say of them."""
    simulation = replay(ONE_AFTER_THE_OTHER, Cluster.of_servers(1), "fifo")
    metrics = measure(simulation)
    assert metrics.jct_weighted_mean_s is None
    assert metrics.deadlines is metrics.missed_deadlines is metrics.missed_deadline_share is None
    assert metrics.cost is None
    assert [run.cost for run in simulation.runs] == [0, 0]


def test_weighted_mean() -> None:
    """JCTs of 10 and 30 s, of which the first counts three times."""
    jobs = [job_of("x", 0, 10, weight=1.5), job_of("y", 0, 20, weight=0.5)]
    metrics = measure(replay(jobs, Cluster.of_servers(1, gpus_per_server=1), "fifo"))
    assert metrics.jct_mean_s == 20
    assert metrics.jct_weighted_mean_s == 15


def test_missed_deadlines() -> None:
    """To complete just in time is not to miss it, and who has none misses none."""
    jobs = [
        job_of("in-time", 0, 10, deadline_s=10),
        job_of("late", 0, 10, deadline_s=19.9),
        job_of("any", 0, 10),
        job_of("never-late", 5, 10, deadline_s=35),
    ]
    simulation = replay(jobs, Cluster.of_servers(1, gpus_per_server=1), "fifo")
    assert [run.missed_deadline for run in simulation.runs] == [False, True, None, False]
    metrics = measure(simulation)
    assert (metrics.deadlines, metrics.missed_deadlines) == (3, 1)
    assert metrics.missed_deadline_share == pytest.approx(1 / 3)


def test_cost() -> None:
    """Price per hour of each type times the GPU hours held, by hand."""
    jobs = [
        job_of("dear", 0, 1000, 2, gpu_types=("dear",)),
        job_of("cheap", 0, 500, 1, gpu_types=("cheap",)),
    ]
    simulation = replay(jobs, PRICED, "fifo")
    assert [run.cost for run in simulation.runs] == pytest.approx([2.0, 0.25])
    assert measure(simulation).cost == pytest.approx(2.25)
    simulation.runs[0].cost += 1
    with pytest.raises(AssertionError, match="cost of jobs"):
        require_conserved(simulation)


def test_borrowed_gpus_cost_too() -> None:
    """At the price of their own type: 100 s of one of them, and none of the own one."""
    lent = GpuType(name="lent", price_per_hour=7.2)
    cluster = borrowing(1, 1, 1, lent)
    jobs = [job_of("own", 0, 3600), job_of("borrows", 5, 100, fungible=True)]
    simulation = replay(jobs, cluster, "lyra-loaning", plan=lending(1))
    assert simulation.runs[1].ran_on_loan
    assert [run.cost for run in simulation.runs] == pytest.approx([1.0, 0.2])
    assert measure(simulation).cost == pytest.approx(1.2)


# What must be true of any simulation.


def first_come() -> Kernel:
    return replay(ONE_AFTER_THE_OTHER, Cluster.of_servers(1), "fifo")


def on_a_rack() -> Kernel:
    return on_racks.simulate([on_racks.job("x", 60, gang=4)])


def in_two_rounds() -> Kernel:
    return in_rounds.simulate([in_rounds.gang("x", 15)], in_rounds.cluster_of({"a": 1}))


@pytest.mark.parametrize("make", [first_come, on_a_rack, in_two_rounds])
@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("held_gpu_s", "GPU-seconds held by jobs: [0-9]+.[0-9]+, not [0-9]+.[0-9]+"),
        ("queued_s", "waited for .* s and held GPUs for .* s of the .* s in which it was there"),
        ("running_s", "waited for .* s and held GPUs for .* s of the .* s in which it was there"),
        ("rest", "is complete with 1.0 of [0-9.]+ to do"),
        ("left", "1 jobs did not complete"),
    ],
)
def test_what_is_lost_is_noticed(make: Callable[[], Kernel], field: str, message: str) -> None:
    """The check after a run would see GPU-seconds, work or time that went astray."""
    simulation = make()
    require_conserved(simulation)
    run = simulation.runs[-1]
    setattr(run, field, getattr(run, field) + 1)
    with pytest.raises(AssertionError, match=message):
        require_conserved(simulation)


@pytest.mark.parametrize("make", [first_come, on_a_rack, in_two_rounds])
def test_lost_gpu_seconds_are_found(make: Callable[[], Kernel]) -> None:
    """What jobs held is counted apart from what the cluster gave."""
    simulation = make()
    simulation.totals.held_gpu_s[0] += 1
    held = sum(run.held_gpu_s for run in simulation.runs)
    with pytest.raises(AssertionError, match=f"held by jobs: {held}, not {held + 1}"):
        require_conserved(simulation)
    simulation.totals.held_gpu_s[0] -= 1
    require_conserved(simulation)
    simulation.runs[-1].completion_s = -1
    last = simulation.runs[-1].job.id
    with pytest.raises(AssertionError, match=f"1 jobs did not complete, {last} first"):
        require_conserved(simulation)


def test_gpu_seconds_by_tier_are_those_held() -> None:
    """Both are counted apart."""
    simulation = on_a_rack()
    simulation.runs[0].gpu_s_by_tier[2] += 1
    with pytest.raises(AssertionError, match="tiers of job x"):
        require_conserved(simulation)
