"""Bounds on makespans by fluid work: below every schedule, with forking below those without."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous.bounds.divisible_makespan import divisible_makespan
from lyra_opt.heterogeneous.bounds.fastest import earliest_completion
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.formulations.heterogeneous.share_instances import drawn
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job

ENGINES = ("lp-highs", "lp-glop")


def engine_of(name):
    return find_solver("heterogeneous", name).point_of


def two_servers(*, forking, jobs=1, gang=1):
    """A fast and a slow GPU on servers of their own, jobs of 30 steps at 2 and 1 steps a second."""
    rates = {"fast": 2.0, "slow": 1.0}
    alike = [job(f"j{n}", 30.0, gang=gang, throughput=rates) for n in range(jobs)]
    settings = {"objective": "makespan", "horizon_rounds": 60, "forking": forking}
    return instance_of([{"fast": 1}, {"slow": 1}], alike, **settings)


@pytest.mark.parametrize("engine", ENGINES)
def test_what_forking_must_give_a_job_alone(engine):
    """30 steps at 2 a second take 15 s; at 2 + 1, on both servers at once, 10 s."""
    alone = divisible_makespan(two_servers(forking=False), engine_of(engine), forking=False)
    forked = divisible_makespan(two_servers(forking=True), engine_of(engine), forking=True)
    assert (alone, forked) == pytest.approx((15.0, 10.0), rel=1e-8)


@pytest.mark.parametrize("engine", ENGINES)
def test_forking_gives_nothing_where_all_gpus_are_busy_anyway(engine):
    """Two jobs alike swap servers halfway: 20 s with and without forking."""
    instance = two_servers(forking=False, jobs=2)
    for forking in (False, True):
        found_s = divisible_makespan(instance, engine_of(engine), forking=forking)
        assert found_s == pytest.approx(20.0, rel=1e-8)


@draws(30, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    heterogeneous_instances(objective="makespan", max_jobs=3, max_rounds=8),
    st.sampled_from(ENGINES),
)
def test_no_schedule_is_below(instance, engine):
    """The exact optimum of the rounds, where there is one, is at or above the bound."""
    exact = lo.solve(instance, "cpsat")
    assert exact.status in (lo.Status.OPTIMAL, lo.Status.INFEASIBLE), exact.message
    if exact.status is lo.Status.OPTIMAL:
        bound_s = divisible_makespan(instance, engine_of(engine), forking=instance.forking)
        assert bound_s <= exact.objective


@draws(40)
@given(heterogeneous_instances(objective="makespan", forking=True, max_jobs=4))
def test_forking_never_has_a_larger_bound(instance):
    """Gangs that any server holds, no faster spread: what runs once can run as one copy."""
    smallest = min(sum(server.gpus.values()) for server in instance.servers)

    def on_one_server(gang):
        nowhere = dict.fromkeys(gang.throughput, 0.0)
        fitting = min(gang.gang, smallest)
        return replace(gang, gang=fitting, current={}, spread_throughput=nowhere)

    instance = replace(instance, jobs=tuple(map(on_one_server, instance.jobs)))
    if any(earliest_completion(instance, gang) is None for gang in instance.jobs):
        return
    forked, single = (
        divisible_makespan(instance, engine_of("lp-highs"), forking=forking)
        for forking in (True, False)
    )
    assert forked <= single * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("forking", [False, True])
def test_engines_agree_on_measured_rates(seed, forking):
    """Two independent methods; prices that left a gap would give another bound."""
    instance = drawn(30, "makespan", seed=seed, largest_gang=4, horizon_rounds=100_000)
    first, second = (
        divisible_makespan(instance, engine_of(name), forking=forking) for name in ENGINES
    )
    assert first == pytest.approx(second, rel=1e-8)


def test_job_that_fits_nowhere():
    """A gang of two on two servers of one GPU cannot be one copy."""
    with pytest.raises(ValueError, match="cannot run on any GPU"):
        divisible_makespan(two_servers(forking=True, gang=2), engine_of("lp-highs"), forking=True)
