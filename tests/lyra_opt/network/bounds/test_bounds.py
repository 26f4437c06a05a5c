"""The bound: above every placement whatever the prices, and tight by hand."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.network.bounds import dual_bound as module
from lyra_opt.network.bounds.dual_bound import dual_bound, knapsack_bound, offers_of, price_bound
from lyra_opt.network.bounds.rack_pattern_kernel import fill_racks
from lyra_opt.network.checker import check
from lyra_opt.network.instance import Objective, Solution
from lyra_opt.testing.strategies import network_instances
from tests.draws import draws
from tests.lyra_opt.network.heuristics.cases import gang, instance_of
from tests.optima import optimum


@given(network_instances(max_jobs=4, max_machines=4, max_gpus=4))
@draws(35)
def test_no_optimum_is_beyond_the_bound(instance):
    """Brute force finds nothing better, with whole racks, with racks taken apart, and by size."""
    best = float(optimum(instance))
    assert dual_bound(instance) >= best
    offers = offers_of(instance)
    if offers:
        # The optimum is rounded from an exact value, and rounding keeps order.
        assert float(knapsack_bound(instance, offers)) >= best
        for whole in (True, False):
            relaxation = module._Relaxation(instance, offers, racks_are_whole=whole)
            assert float(relaxation.solve().value) >= best


@given(network_instances(max_jobs=5, max_machines=4), st.data())
@draws(40)
def test_any_prices_prove_a_bound(instance, data):
    """The proof is weak duality: it must not lean on how the prices were found."""
    offers = offers_of(instance)
    if not offers:
        return
    relaxation = module._Relaxation(instance, offers, racks_are_whole=True)
    price = st.floats(-1, 40)
    sizes = [int(size) for size in relaxation.sizes]
    prices = module.Prices(
        machine={size: data.draw(price) for size in sizes},
        rack={size: data.draw(price) for size in sizes},
        network=data.draw(price),
    )
    bounds = (relaxation._bound_at(prices)[0], relaxation._whole_gangs_bound(prices))
    best = float(optimum(instance))
    assert all(float(bound / relaxation.units) >= best for bound in bounds)


@given(network_instances(max_jobs=6))
@draws(35)
def test_prices_are_not_negative(instance):
    """A negative price would charge racks for room that nobody has to use."""
    proof = price_bound(instance, offers_of(instance))
    if proof is None:
        return
    assert min([*proof.prices.machine.values(), *proof.prices.rack.values()]) >= 0
    if instance.objective is not Objective.LEAST_FRAGMENTATION:
        assert proof.prices.network >= 0


def test_two_gangs_that_need_the_same_machine():
    """A fractional knapsack takes 4 and half of the other; no machine does."""
    jobs = [gang(5, "a", efficiency={"machine": 1.0}), gang(4, "b", efficiency={"machine": 0.9})]
    instance = instance_of([[8]], jobs)
    assert float(knapsack_bound(instance, offers_of(instance))) > 7
    assert dual_bound(instance) == 5.0


def test_gangs_do_not_share_a_rack_in_parts():
    """Two racks of 6 GPUs hold two gangs of 4, and not three."""
    jobs = [gang(4, name, efficiency={"rack": 0.5}) for name in "abc"]
    assert dual_bound(instance_of([[3, 3], [3, 3]], jobs)) == 4.0


def test_the_network_is_not_shared_in_parts():
    """Whole gangs of 5 in 8 GPUs: one, though the prices of GPUs say 1.6."""
    jobs = [gang(5, name, efficiency={"network": 0.5}) for name in "ab"]
    assert dual_bound(instance_of([[4], [4]], jobs)) == 2.5


def test_machines_that_cannot_be_filled_cost_what_they_do():
    """One gang of 3: it leaves its machine partly free, or another one."""
    instance = instance_of([[4, 4]], [gang(3)], gpus=4, objective="least_fragmentation")
    assert dual_bound(instance) == 3 * 3 - 1
    nobody = instance_of([[3, 4]], [gang(9)], gpus=4, objective="least_fragmentation")
    assert dual_bound(nobody) == -1 == check(nobody, Solution(())).objective


def test_bound_of_counts_is_an_integer():
    """An objective that counts has no value in between."""
    jobs = [gang(3, name) for name in "abc"]
    for objective in ("fewest_tiers", "least_fragmentation"):
        instance = instance_of([[4, 4]], jobs, gpus=4, objective=objective)
        assert isinstance(dual_bound(instance), int)


def test_large_racks_are_taken_apart(monkeypatch):
    """Where the dynamic programmes would take too long, the bound is looser, and a bound still."""
    jobs = [gang(4, name, efficiency={"rack": 0.5}) for name in "abc"]
    instance = instance_of([[3, 3], [3, 3]], jobs)
    monkeypatch.setattr(module, "MOST_WORK", 80)
    apart = price_bound(instance, offers_of(instance))
    assert 4.0 <= apart.value <= 6
    monkeypatch.setattr(module, "MOST_WORK", 0)
    assert price_bound(instance, offers_of(instance)) is None
    assert dual_bound(instance) == 6.0


@given(network_instances(max_jobs=6))
@draws(40)
def test_kernel_is_the_same_compiled(instance):
    """Machine code and Python are one rule."""
    offers = offers_of(instance)
    if not offers:
        return
    relaxation = module._Relaxation(instance, offers, racks_are_whole=True)
    own = np.full((2, len(relaxation.sizes)), 7, np.int64)
    found = []
    for run in (fill_racks.interpreted, fill_racks.compiled):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(fill_racks), "run", lambda _, *given, run=run, **sizes: run(*given))
            found.append(relaxation._patterns(own, 3))
    assert found[0] == found[1]


def test_knapsack_by_hand():
    """Values for each GPU 1, 0.6 and 0.3 in 10 GPUs: 4 + 0.6 * 4 + 0.3 * 2."""
    shares = {"machine": 1.0, "rack": 0.6, "network": 0.3}
    jobs = [gang(4, tier, efficiency={tier: share}) for tier, share in shares.items()]
    instance = instance_of([[4, 2], [4]], jobs, gpus=4)
    bound = knapsack_bound(instance, offers_of(instance))
    assert bound == 4 + 4 * Fraction(0.6) + 2 * Fraction(0.3)


@pytest.mark.parametrize("weight", [1e-300, 1e-310, 1e12])
def test_weights_of_any_size_scale_the_bound(weight):
    """Tiny weights do not break the arithmetic, and huge ones do not drop the prices."""
    fives = [gang(5, f"j{n}", efficiency={"machine": 1.0}, weight=weight) for n in range(7)]
    assert 20 * weight <= dual_bound(instance_of([[8] * 4], fives)) <= 20 * weight * (1 + 1e-6)
