"""The models of the network problem: against one another, and by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.solver import find_solver
from lyra_opt.formulations.backends.backend import Settings
from lyra_opt.formulations.backends.cpsat import run_cpsat
from lyra_opt.formulations.network.patterns.data import PatternModel, pattern_columns
from lyra_opt.formulations.network.placing import gang_data, simple_bound
from lyra_opt.formulations.network.tiers.data import TierModel
from lyra_opt.network.checker import check
from lyra_opt.network.instance import Machine, Solution
from lyra_opt.testing.strategies import network_instances
from tests.draws import draws
from tests.formulations.backends import BACKENDS, solved
from tests.lyra_opt.network.examples import instance, job
from tests.optima import optimum

MODELS = (*BACKENDS, *(f"{name}-patterns" for name in BACKENDS))
OBJECTIVES = ("epoch", "work_rate", "fewest_tiers", "least_fragmentation")
SUFFIX = {TierModel: "", PatternModel: "-patterns"}

every_model = pytest.mark.parametrize("name", MODELS)


def machine(name, rack, gpus, free=None):
    """Return a machine, all free unless told otherwise."""
    return Machine(id=name, rack=rack, gpus=gpus, free_gpus=gpus if free is None else free)


@given(network_instances())
@draws(30)
def test_the_relaxation_is_no_worse_than_the_knapsack(one):
    """Nor are list placements better than it."""
    relaxed = solved(one, "lp-highs")
    assert solved(one, "list-placement").objective <= relaxed.objective
    assert relaxed.dual_bound <= simple_bound(one)


@given(
    network_instances(max_jobs=4, max_machines=4, max_gpus=4),
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=8),
)
@draws(25)
def test_any_multipliers_prove_a_bound(one, multipliers):
    """What HiGHS returns may be nonsense; the bound is one all the same."""
    patterns = PatternModel.of(one, in_floats=True)
    assume(patterns.data.can_start())
    programme = find_solver("network", "lp-highs").build(patterns).model
    nonsense = [multipliers[k % len(multipliers)] for k in range(len(programme.rows))]
    worth = -programme.proved_bound(nonsense) * patterns.data.unit
    assert worth >= optimum(one) - Fraction(1, 10**9)


@pytest.mark.parametrize("form", [TierModel, PatternModel])
@given(data=st.data())
@draws(25)
def test_solutions_of_the_model_are_placements(form, data):
    """For any worth of the tiers: what CP-SAT finds keeps the checker's rules, worth no less.

    Worths at random make the solver use every corner of the model; the instance's own decide
    which gangs must be apart, so a collapse to a nearer tier never costs.
    """
    one = data.draw(network_instances())
    model = form.of(one)
    assume(model.data.can_start())
    built = find_solver("network", f"cpsat{SUFFIX[form]}").build(model)
    wanted = data.draw(st.lists(st.integers(-3, 3), min_size=1, max_size=7))
    built.model.minimize(sum(wanted[k % len(wanted)] * x for k, x in enumerate(built.in_order)))
    run = run_cpsat(built, model.start(Solution(())), Settings())
    report = check(one, model.solution(run.values))
    assert report.violations == ()
    priced = find_solver("network", f"pulp-highs{SUFFIX[form]}").build(model)
    for variable, value in zip(priced.in_order, run.values, strict=True):
        variable.setInitialValue(value)
    worth = -priced.model.objective.value() * float(model.data.unit)
    assert report.objective >= worth - 1e-6 * max(1, abs(worth))


@every_model
def test_one_rack_beats_the_network(name):
    """A tiny model of which CBC's pre-processing proves the optimum 0.25."""
    one = instance(
        job("alone", 3, efficiency={"rack": 1.0, "network": 0.75}),
        job("all", 5, efficiency={"machine": 0.3, "rack": 0.05, "network": 0.05}),
        machines=(machine("a", "west", 2), machine("b", "east", 2), machine("c", "west", 1)),
    )
    found = solved(one, name)
    assert (found.status, found.objective) == (lo.Status.OPTIMAL, 3)


BUSY = tuple(replace(each, free_gpus=0) for each in instance().machines)
IDLE = [
    instance(machines=BUSY),
    instance(job("a", 2, efficiency={"rack": 1.0}, rack_timer_s=None)),
    instance(job("a", 11)),
    instance(job("a", 2, score=1.0), objective="epoch"),
]


@pytest.mark.parametrize("name", [*MODELS, "brute-force", "lp-highs"])
@pytest.mark.parametrize("one", IDLE)
def test_nothing_can_start(name, one):
    """Neither free GPUs nor a tier that is accepted; proved without a backend."""
    found = solved(one, name)
    assert (found.status, found.objective) == (lo.Status.OPTIMAL, 0.0)


@pytest.mark.parametrize("name", [*MODELS, "brute-force", "lp-highs"])
def test_what_has_no_room_may_be_worth_far_more(name):
    """By more than floats can hold."""
    far = instance(job("a", 2, weight=1e-300), job("b", 11, weight=1e12))
    found = solved(far, name)
    assert (found.status, found.objective) == (lo.Status.OPTIMAL, 2e-300)


def test_patterns_are_counted_before_they_are_made():
    """A machine of 200 GPUs has too many of them; the other model takes it."""

    def refusal(name, one):
        skip = find_solver("network", name).supports(one)
        return skip.reason if skip else ""

    one = instance(
        *(job(f"j{n}", 1 + n % 20) for n in range(60)), machines=(machine("m", "r", 200),)
    )
    for name in ("cpsat-patterns", "lp-highs"):
        assert "supports at most 200000 variables" in refusal(name, one)
    assert refusal("cpsat", one) == ""
    wide = replace(one, machines=tuple(machine(f"m{n}", "r", 3000) for n in range(40)))
    assert "floating point" in refusal("pulp-highs", wide)
    assert "brute force tries" in refusal("brute-force", wide)


def test_limits_are_found_fast():
    """A machine of a million GPUs, and as many gangs as the format has room for in a test."""
    vast = (machine("m", "r", 10**6),)
    one = instance(*(job(f"j{n}", 1 + n % 97) for n in range(2000)), machines=vast)
    for name in ("brute-force", "cpsat-patterns", "lp-highs", "pulp-highs"):
        assert find_solver("network", name).supports(one) is not None
    lone = instance(job("a", 10**6), machines=vast)
    assert solved(lone, "cpsat-patterns").objective == 10**6


@given(network_instances())
@draws(30)
def test_columns_are_not_underestimated(one):
    """What guards against a model that is too large is at least its size."""
    patterns = PatternModel.of(one)
    made = sum(len(of_class) for of_class in patterns.patterns)
    assert pattern_columns(one) >= made


def test_alike_machines_are_one_class():
    """Those of a rack with as many free GPUs; as free a whole where machines count."""
    machines = [machine(f"m{n}", f"r{n % 2}", 4 if n < 4 else 8, 4) for n in range(8)]
    one = instance(job("a", 4), machines=machines)
    assert len(PatternModel.of(one).classes) == 2
    assert len(PatternModel.of(replace(one, objective="least_fragmentation")).classes) == 4


def test_must_be_apart_only_where_it_matters():
    """Not where no machine could hold the gang, nor where nearer is no worse."""
    rising = {"machine": 0.5, "rack": 1.0, "network": 0.75}
    data = gang_data(
        instance(job("a", 4, efficiency=rising), job("b", 5, efficiency=rising), job("c"))
    )
    assert data.must_span_machines == {(0, 0), (0, 1)}
    # In rack r1 job a would be on one machine; in r0 it would be on two, which is better.
    assert data.must_span_racks == {0}
