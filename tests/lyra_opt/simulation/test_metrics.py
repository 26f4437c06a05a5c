"""Figures worked out by hand, and the check that GPU-seconds, work and time are conserved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.metrics import isolated_rate, measure, require_conserved
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Job
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import job_of, replay

if TYPE_CHECKING:
    from lyra_opt.simulation.kernel import Kernel

BASE_S = 1000.0
ONE_AFTER_THE_OTHER = [job_of("a", BASE_S, 100, 2), job_of("b", BASE_S, 100, 2)]


# On racks.


def test_fragmentation():
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


# Of unlike GPUs.


@pytest.mark.parametrize(
    ("gang", "jobs", "rate"),
    [
        (in_rounds.gang("x", 1, a=4.0, b=2.0), 1, 3),
        (in_rounds.gang("x", 1, a=4.0, b=2.0), 4, 3),
        (in_rounds.gang("x", 1, a=4.0), 8, 1),
        (in_rounds.gang("x", 1, gang=2, a=4.0), 8, 0.5),
    ],
)
def test_isolated_rate(gang, jobs, rate):
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


def test_cost():
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
        ("held_gpu_s", "GPU-seconds held by jobs: expected [0-9.]+, found [0-9.]+"),
        ("queued_s", "waited for .* s and held GPUs for .* do not add up to its completion time"),
        ("running_s", "waited for .* s and held GPUs for .* do not add up to its completion time"),
        ("rest", "completed with 1.0 of [0-9.]+ work left"),
        ("left", "1 jobs did not complete"),
    ],
)
def test_what_is_lost_is_noticed(make, field, message):
    """The check after a run would see GPU-seconds, work or time that went astray."""
    simulation = make()
    require_conserved(simulation)
    run = simulation.runs[-1]
    setattr(run, field, getattr(run, field) + 1)
    with pytest.raises(AssertionError, match=message):
        require_conserved(simulation)


@pytest.mark.parametrize("make", [first_come, on_a_rack, in_two_rounds])
def test_lost_gpu_seconds_are_found(make):
    """What jobs held is counted apart from what the cluster gave."""
    simulation = make()
    simulation.totals.held_gpu_s[0] += 1
    held = sum(run.held_gpu_s for run in simulation.runs)
    with pytest.raises(AssertionError, match=f"held by jobs: expected {held + 1}, found {held}"):
        require_conserved(simulation)
    simulation.totals.held_gpu_s[0] -= 1
    require_conserved(simulation)
    simulation.runs[-1].completion_s = -1
    last = simulation.runs[-1].job.id
    with pytest.raises(AssertionError, match=f"1 jobs did not complete; first: {last}"):
        require_conserved(simulation)


def test_gpu_seconds_by_tier_are_those_held():
    """Both are counted apart."""
    simulation = on_a_rack()
    simulation.runs[0].gpu_s_by_tier[2] += 1
    with pytest.raises(AssertionError, match="tiers of job x"):
        require_conserved(simulation)
