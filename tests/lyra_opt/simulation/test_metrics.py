"""Isolated rates, and the check that GPU-seconds, work and time are conserved."""

import pytest

from lyra_opt.simulation.cluster import Cluster, GpuType
from lyra_opt.simulation.job_run import NEVER
from lyra_opt.simulation.metrics import isolated_rate, require_conserved
from lyra_opt.simulation.speed import Speed
from tests.lyra_opt.simulation import in_rounds, on_racks
from tests.lyra_opt.simulation.replays import job_of, replay
from tests.tables import tables

TABLES = tables(__file__)


@pytest.mark.parametrize(("gang", "jobs", "rate"), TABLES["isolated_rate"])
def test_isolated_rate(gang, jobs, rate):
    """Shares of types add up to 1 at most, and types that cannot run the job give nothing."""
    speed = Speed(in_rounds.cluster_of({"a": 2}, {"b": 2}))
    assert isolated_rate(in_rounds.measured("x", 1, **gang), speed, jobs) == rate


# What must be true of any simulation.


def first_come():
    jobs = [job_of(name, 1000.0, 100, 2) for name in "ab"]
    return replay(jobs, Cluster.of_servers(1, gpu=GpuType(name="V100", price_per_hour=2)), "fifo")


def on_a_rack():
    return on_racks.simulate([on_racks.job("x", 60, gang=4)])


def in_two_rounds():
    return in_rounds.simulate([in_rounds.gang("x", 15)], in_rounds.cluster_of({"a": 1}))


@pytest.mark.parametrize("make", [first_come, on_a_rack, in_two_rounds])
@pytest.mark.parametrize(("field", "message"), TABLES["lost"])
def test_what_is_lost_is_noticed(make, field, message):
    """The check after a run would see GPU-seconds, work or time that went astray."""
    simulation = make()
    require_conserved(simulation)
    run, held = simulation.runs[-1], sum(run.held_gpu_s for run in simulation.runs)
    setattr(run, field, NEVER if field == "completion_s" else getattr(run, field) + 1)
    told = message.format(held=held, more=held + 1, last=run.job.id)
    with pytest.raises(AssertionError, match=told):
        require_conserved(simulation)


@pytest.mark.parametrize("make", [first_come, on_a_rack, in_two_rounds])
def test_lost_gpu_seconds_are_found(make):
    """What jobs held is counted apart from what the cluster gave."""
    simulation = make()
    simulation.totals.held_gpu_s[0] += 1
    with pytest.raises(AssertionError, match="held by jobs: expected"):
        require_conserved(simulation)


def test_costs_gpu_seconds_by_tier_and_parts_of_time_are_counted_apart():
    """No part of a completion time is negative."""
    on_tiers, paid, faster = on_a_rack(), first_come(), first_come()
    on_tiers.runs[0].gpu_s_by_tier[2] += 1
    paid.runs[0].cost += 1
    faster.runs[0].slower_type_s = -1.0
    for simulation, message in (
        (on_tiers, "tiers of job x"),
        (paid, "cost of jobs"),
        (faster, "job a: slower_type_s is negative: -1.0 s"),
    ):
        with pytest.raises(AssertionError, match=message):
            require_conserved(simulation)
