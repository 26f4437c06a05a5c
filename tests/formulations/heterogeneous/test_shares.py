"""Share solvers: they agree, with one another and with closed forms, and their prices prove it."""

import math
from dataclasses import replace
from fractions import Fraction
from operator import truediv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits, Status
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import refute_claims
from lyra_opt.heterogeneous.checker import check
from lyra_opt.heterogeneous.exact.shares.arrays import ShareArrays
from lyra_opt.heterogeneous.exact.shares.programme import SharePrices, merged, rows_alike
from lyra_opt.heterogeneous.exact.shares.solver import fractions_of_cluster
from lyra_opt.heterogeneous.instance import SHARE_OBJECTIVES, GpuType, Objective, TimeShares
from lyra_opt.heterogeneous.share_checker import ShareNumbers, least_throughput
from lyra_opt.heterogeneous.utility import Deadline, InverseJct
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.formulations.backends import solved
from tests.formulations.heterogeneous.share_instances import drawn
from tests.lyra_opt.heterogeneous.heuristics import cases
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of

SOLVERS = ("lp-highs", "lp-glop", "lp-sifting")
OBJECTIVES = sorted(str(objective) for objective in SHARE_OBJECTIVES)

PARTS = st.sampled_from([0.0, -0.0, 1.0, 2.0])


def one_type(jobs, gpus, objective):
    dear = (GpuType(name="a", price_per_hour=2.0),)
    return instance_of([{"a": gpus}], jobs, objective=objective, gpu_types=dear)


def job(number, gang=1, **more):
    return cases.job(f"j{number}", gang=gang, **{"steps": 10.0, "throughput": {"a": 2.0}, **more})


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(3))
def test_solvers_agree_on_measured_rates(objective, seed):
    """The same with rates, gangs and steps over several orders of magnitude."""
    instance = drawn(40, objective, seed=seed, with_deadlines=True)
    answers = [solved(instance, name) for name in SOLVERS]
    assert all(a.status is not Status.ERROR for a in refute_claims(answers))
    for answer in answers:
        assert answer.status is Status.OPTIMAL
        assert answer.objective == pytest.approx(answers[0].objective, rel=2e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_deadlines_that_just_can_be_met(solver):
    """No interior at all: each job needs exactly half of the GPU."""
    tight = [job(n, utility=Deadline(deadline_s=10.0)) for n in range(2)]
    answer = solved(one_type(tight, 1, "cost"), solver)
    assert answer.status is Status.OPTIMAL
    assert answer.objective == pytest.approx(1.0, rel=1e-5)


@draws(40)
@given(
    heterogeneous_instances(objective="max_min_share", max_jobs=4, with_packing=True),
    st.integers(0, 2**32 - 1),
)
def test_any_prices_prove_a_bound(instance, seed):
    """The certificate needs no honest solver: random prices bound the optimum too."""
    arrays = ShareArrays.of(instance)
    rng = np.random.default_rng(seed)
    jobs, types = arrays.rate.shape
    prices = SharePrices(
        rng.exponential(size=jobs),
        rng.exponential(size=types) ** 3,
        rng.exponential(size=(jobs, 1)),
    )
    optimum = solved(instance).objective
    assert arrays.max_min_share().dual_bound(prices) >= optimum
    ratio = solved(replace(instance, objective="finish_time_fairness")).objective
    assert arrays.ratio_bound(prices) <= ratio
    total = solved(replace(instance, objective="throughput")).objective
    assert arrays.total(Objective.THROUGHPUT).dual_bound(prices) >= total * (1 - 1e-12)


def test_prices_that_are_no_numbers_prove_nothing():
    """A failed engine must not make a bound."""
    arrays = ShareArrays.of(drawn(3))
    nothing = SharePrices(np.full(3, np.nan), np.full(3, -1.0))
    assert arrays.max_min_share().dual_bound(nothing) == math.inf


def test_bounds_hold_for_all_that_the_checker_accepts():
    """Shares that break the rules by the checker's tolerance are worth more than the optimum."""
    instance = one_type([job(0), job(1)], 1, "max_min_share")
    beyond = TimeShares({f"j{n}": {"a": 0.5 * (1 + 0.99e-6)} for n in range(2)})
    value = check(instance, beyond).objective
    for solver in SOLVERS:
        answer = solved(instance, solver)
        assert answer.objective <= value <= answer.dual_bound


@draws(25)
@given(st.sampled_from(OBJECTIVES).flatmap(lambda o: heterogeneous_instances(objective=o)))
def test_equal_parts_of_the_cluster_are_feasible(instance):
    """X_iso, from which solvers start, keeps all rules; its worst finish-time ratio is known."""
    instance = replace(instance, objective="finish_time_fairness")
    arrays = ShareArrays.of(instance)
    shares = fractions_of_cluster(arrays)
    report = check(instance, arrays.solution(shares))
    assert report.objective == pytest.approx(
        arrays.objective(Objective.FINISH_TIME_FAIRNESS, shares), rel=1e-12
    )
    assert (arrays.rate * shares).sum(axis=1) == pytest.approx(arrays.isolated_rate, rel=1e-12)


def test_invalid_warm_start():
    """Shares that hold more GPUs than there are are named."""
    instance = one_type([job(0), job(1)], 1, "throughput")
    start = TimeShares({"j0": {"a": 1.0}, "j1": {"a": 1.0}})
    solver = find_solver("heterogeneous", "lp-highs")
    with pytest.raises(ValueError, match="the warm start is not valid"):
        solver.solve(instance, limits=Limits(), rng=np.random.default_rng(0), warm_start=start)


def test_arrays_are_the_checkers_numbers():
    """Arrays and checker compute X_eq, X_iso and deadlines apart, and agree."""
    instance = drawn(20, "cost", with_deadlines=True)
    arrays, numbers = ShareArrays.of(instance), ShareNumbers(instance)
    for place, j in enumerate(instance.jobs):
        equal, isolated = numbers.equal_throughput(place), numbers.isolated_throughput(place)
        assert arrays.equal_rate[place] == pytest.approx(truediv(*equal))
        assert arrays.isolated_rate[place] == pytest.approx(truediv(*isolated))
        assert arrays.least_rate[place] == pytest.approx(float(least_throughput(j) or Fraction(0)))


@pytest.mark.parametrize("objective", ["max_min_share", "throughput"])
def test_jobs_alike_are_solved_as_one_and_share_alike(objective):
    """Merging keeps the optimum: five of each job, against the engine on them one by one."""
    few = drawn(6, objective, servers=1, largest_gang=4)
    copies = tuple(replace(j, id=f"{j.id}-{n}") for n in range(5) for j in few.jobs)
    instance = replace(few, jobs=copies)
    arrays = ShareArrays.of(instance)
    whole = arrays.max_min_share() if objective == "max_min_share" else arrays.total(objective)
    small = merged(whole)
    assert len(small.programme.gang) == 6
    assert small.alike.tolist() == [5.0] * 6
    assert (small.programme.gang[small.job] == 5 * whole.gang).all()
    solver = find_solver("heterogeneous", "lp-highs")
    together, apart = solver.point_of(whole), solver.merged_point_of(whole)
    values = [
        arrays.objective(Objective(objective), whole.repaired(point.shares))
        for point in (together, apart)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-9)
    bounds = [whole.dual_bound(point.prices) for point in (together, apart)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)
    shares = together.shares.reshape(5, 6, -1)
    assert (shares == shares[0]).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_deadline_missed_within_the_tolerance_is_not_proved_impossible(solver):
    """The checker lets shares pass that miss it by less than 1e-6, so there is no such proof."""
    late = job(0, steps=100.00015, throughput={"a": 1.0}, utility=Deadline(deadline_s=100.0))
    instance = one_type([late], 1, "cost")
    assert check(instance, TimeShares({"j0": {"a": 1 + 9e-7}})).violations == ()
    assert solved(instance, solver).status is not Status.INFEASIBLE


def spread(seed, objective):
    """Return an instance whose weights span nine powers of ten, rates and steps twelve and more."""
    rng = np.random.default_rng(seed)
    held = [{name: int(rng.integers(1, 4)) for name in "abc"} for _ in range(2)]
    gpus = {name: sum(server[name] for server in held) for name in "abc"}
    jobs = []
    for number in range(int(rng.integers(2, 12))):
        rates = {
            str(name): float(10 ** rng.uniform(-6, 6)) for name in rng.permutation(list("abc"))
        }
        jobs.append(
            job(
                number,
                gang=int(rng.integers(1, gpus[min(rates)] + 1)),
                steps=float(10 ** rng.uniform(-12, 12)),
                throughput=rates,
                weight=float(10 ** rng.uniform(-3, 6)),
                elapsed_s=float(rng.choice([0.0, 1e3, 1e9])),
                isolated_elapsed_s=float(rng.choice([0.0, 1e3, 1e9])),
                utility=Deadline(deadline_s=1e18) if rng.random() < 0.3 else InverseJct(),
            )
        )
    return instance_of(held, jobs, objective=objective)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_numbers_that_span_many_powers_of_ten_are_proved(objective):
    """The default engine drops coefficients below 1e-9; the job they are of still gets its part."""
    for seed in range(40):
        answer = solved(spread(seed, objective))
        assert answer.status in (Status.OPTIMAL, Status.INFEASIBLE), answer.instance.name


@pytest.mark.parametrize("weights", [(1e6, 1e-3), (1e60, 1e-60)])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_job_that_needs_next_to_nothing_gets_it(solver, weights):
    """Half of the optimum was the answer where it got nothing."""
    heavy, light = weights
    jobs = [job(0, gang=2, weight=heavy), job(1, weight=light)]
    instance = one_type(jobs, 2, "max_min_share")
    answer = solved(instance, solver)
    assert answer.status is Status.OPTIMAL
    assert answer.objective == pytest.approx(2 / heavy, rel=1e-6)


def test_a_job_that_is_nearly_done_gets_what_it_needs():
    """The same of finish-time fairness: one second of a job's 1,000 is an excellent share."""
    nearly = job(0, steps=2e-10, isolated_elapsed_s=1000.0)
    instance = one_type([nearly, job(1, gang=2, steps=1e-10)], 2, "finish_time_fairness")
    for solver in SOLVERS:
        answer = solved(instance, solver)
        assert answer.status is Status.OPTIMAL
        assert answer.objective == pytest.approx(0.5, rel=1e-5)


def test_water_filling_fills_where_weights_span_many_powers_of_ten():
    """It takes the same programmes."""
    instance = one_type([job(0, gang=2, weight=1e6), job(1, weight=1e-3)], 2, "max_min_share")
    answer = solved(instance, "water-filling")
    assert answer.objective == pytest.approx(2e-6, rel=1e-6)


def test_even_shares_are_feasible_and_an_equal_part_of_the_best():
    """What shares are repaired with: alone they give each job that part of what it could have."""
    for seed in range(40):
        arrays = ShareArrays.of(spread(seed, "max_min_share"))
        programme = arrays.max_min_share()
        even = programme.even_shares()
        assert (programme.repaired(even) == even).all()
        part = (programme.value * even).sum(axis=1) / programme.value.max(axis=1)
        assert part == pytest.approx(1 / len(arrays.gang))


@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[PARTS] * width), min_size=1)))
def test_rows_alike_are_those_that_sorting_all_finds(rows):
    """In the same order; zeros of either sign are alike."""
    array = np.array(rows)
    first, kind, count = np.unique(
        array, axis=0, return_index=True, return_inverse=True, return_counts=True
    )[1:]
    found = rows_alike(array)
    for ours, theirs in zip(found, (first, kind.reshape(-1), count), strict=True):
        assert ours.tolist() == theirs.tolist()
