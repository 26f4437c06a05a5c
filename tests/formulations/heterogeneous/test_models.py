"""The models of schedules in rounds: their relaxation, their starts, and cases by hand."""

from dataclasses import replace

import pytest

from lyra_opt.core.result import Status, same_value
from lyra_opt.core.solver import find_solver
from lyra_opt.formulations.backends.backend import Settings
from lyra_opt.formulations.heterogeneous.brute_force import BruteForce
from lyra_opt.formulations.heterogeneous.round_model import RoundModel
from lyra_opt.heterogeneous import GpuServer, check
from tests.formulations.backends import BACKENDS, solved
from tests.lyra_opt.heterogeneous.examples import RATES, entry, instance, job, schedule
from tests.lyra_opt.heterogeneous.heuristics import cases

VARIANTS = ("utility", "makespan", "mean_jct", "round_progress")


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("slow", [1e-60, 1e-9])
def test_a_rate_at_which_no_job_completes(name, slow):
    """How many rounds a job needs at such a rate is a number beyond what backends take."""
    rates = {"fast": 4.0, "slow": slow}
    jobs = [job(each, 2, throughput=rates) for each in "ab"]
    found = solved(instance(*jobs, objective="mean_jct"), name)
    assert (found.status, found.objective) == (Status.OPTIMAL, 3.0)


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("objective", VARIANTS)
def test_rates_that_span_many_powers_of_ten_are_solved(name, objective):
    """A job needs 1e18 rounds on the slow GPUs: no coefficient that HiGHS refuses."""
    rounds = 1 if objective == "round_progress" else 4
    apart = job(throughput={"fast": 1e9, "slow": 1e-9}, steps=2e9)
    one = instance(apart, objective=objective, horizon_rounds=rounds)
    found, expected = solved(one, name), solved(one, "brute-force")
    assert found.status is expected.status is Status.OPTIMAL, found.message
    assert same_value(found.objective, expected.objective, tolerance=1e-6)


def test_refusals():
    """Shares of time, and what is too large, with a reason."""
    shares = instance(objective="cost")
    for name in (*BACKENDS, "brute-force"):
        assert "shares of time" in find_solver("heterogeneous", name).supports(shares).reason or (
            "schedules in rounds" in find_solver("heterogeneous", name).supports(shares).reason
        )
    long = instance(job("a"), job("b"), horizon_rounds=100_000)
    assert "x rounds up to 200000" in find_solver("heterogeneous", "cpsat").supports(long).reason
    assert "at most 8 rounds" in BruteForce().supports(long).reason
    many = instance(*(job(f"j{n}", 2) for n in range(9)))
    assert "jobs can be placed in a round in" in BruteForce().supports(many).reason


def test_alike_servers_are_filled_in_order():
    """Three equal servers are two pairs, and a start is renamed so that it keeps the order."""
    servers = tuple(GpuServer(id=f"s{n}", gpus={"slow": 2}) for n in range(3))
    one = instance(
        job("a", 2, 4.0, throughput={"slow": 1.0}, spread_throughput={"slow": 0.5}), servers=servers
    )
    model = RoundModel.of(one)
    assert model.alike_servers() == [(0, 1), (1, 2)]
    last = schedule(*(entry("a", n, s2={"slow": 2}) for n in range(4)))
    back = model.solution(model.start(last))
    assert [each.gpus for each in back.entries] == [{"s0": {"slow": 2}}] * 4


def test_one_place_where_servers_play_no_part():
    """Rates that do not depend on servers need none of them in the model."""
    assert len(RoundModel.of(instance()).places) == 1
    assert len(RoundModel.of(instance(job(gang=2, spread_throughput=RATES))).places) == 1
    sensitive = instance(job(gang=2, spread_throughput={"fast": 1.0}))
    assert len(RoundModel.of(sensitive).places) == 2
    assert len(RoundModel.of(replace(instance(), forking=True)).places) == 2


def test_presolve_of_cpsat_keeps_the_optimum():
    """A part of it, with its defaults, proves 2 s where both jobs can end after 1 s."""
    jobs = [
        cases.job("a", 0.5, throughput={"K80": 0.0, "P100": 0.5, "V100": 0.5}),
        cases.job("b", 1.0, throughput={"K80": 0.5, "P100": 0.5, "V100": 1.0}),
    ]
    gpus = {"K80": 1, "P100": 1, "V100": 1}
    one = cases.instance_of([gpus], jobs, objective="makespan", horizon_rounds=3)
    solver = find_solver("heterogeneous", "cpsat")
    data = solver.formulation.data(one, None, False)
    found = solver.backend.run(solver.build(data), None, Settings())  # from nothing
    assert check(one, data.solution(found.values)).objective == 1.0
