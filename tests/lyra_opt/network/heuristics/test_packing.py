"""Packing by prices: valid, at least as good as any order given, and right by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.network.heuristics import packing
from lyra_opt.network.heuristics.packing import clear_market, clear_price_of_gpus, pack
from lyra_opt.network.heuristics.packing_kernel import best_packing
from lyra_opt.network.heuristics.policy_solver import state_of, values_of
from lyra_opt.testing.strategies import network_instances
from tests.draws import draws
from tests.lyra_opt.network.heuristics.cases import gang, state_for


def _packed(state, value, **given):
    """Return the tier of each gang that starts."""
    grants = pack(state.machines, state.waiting.gang, np.array(value, float), **given)
    return {grant.job: grant.tier.label for grant in sorted(grants, key=lambda grant: grant.job)}


@given(network_instances(max_jobs=8, max_machines=6, max_gpus=8), st.data())
@draws(40)
def test_machine_code_packs_the_same(instance, data):
    """The kernels are one rule, however they are run; and equals go by position."""
    state = state_of(instance).state
    value = values_of(state, instance)
    order = np.array(data.draw(st.permutations(range(len(value)))), np.int64)
    found = []
    for way in ("interpreted", "compiled", "compiled"):
        with pytest.MonkeyPatch.context() as context:
            for one in (best_packing, clear_market):
                run = getattr(one, way)
                always = SimpleNamespace(run=lambda *given, run=run, **_: run(*given))
                context.setattr(packing, one.__name__, always)
            found.append(pack(state.machines, state.waiting.gang, value, orders=[order]))
    assert found[0] == found[1] == found[2]


def test_nothing_to_do():
    """Nobody is worth anything, or nobody fits: nobody starts."""
    state = state_for([[2, 2]], gang(2), gang(5, "y"))
    assert _packed(state, [[0, -1, 0], [9, 9, 9]]) == {}


def test_the_only_machine_goes_to_whom_it_helps_most():
    """In order of worth for each GPU the first takes it, and the other is left with a quarter."""
    state = state_for([[4, 2, 2]], gang(4, "a"), gang(4, "b"))
    assert _packed(state, [[4, 3.9, 0], [3.9, 1, 0]]) == {0: "rack", 1: "machine"}


def test_gangs_make_room_for_one_worth_more():
    """Two singles are worth more for each GPU, and less than the gang that needs all four."""
    state = state_for([[4]], gang(1, "a"), gang(1, "b"), gang(4, "c"))
    assert _packed(state, [[1.1, 0, 0], [1.1, 0, 0], [4, 0, 0]]) == {2: "machine"}
    kept = _packed(state, [[2.1, 0, 0], [2.1, 0, 0], [4, 0, 0]])
    assert kept == {0: "machine", 1: "machine"}


def test_gangs_move_to_another_tier_for_one_that_cannot():
    """The flexible gang is worth as much for each GPU, and loses little by moving."""
    state = state_for([[4, 2, 2]], gang(4, "a"), gang(4, "b"))
    assert _packed(state, [[4, 3, 0], [4, 0, 0]]) == {0: "rack", 1: "machine"}


def test_network_gangs_find_two_racks():
    """On the tightest machine the gang of 4 would leave all that is free in one rack."""
    state = state_for([[4, 3], [4, 0]], gang(5, "a"), gang(4, "b"), gpus=4)
    assert _packed(state, [[0, 0, 5], [4, 0, 0]]) == {0: "network", 1: "machine"}


def test_network_gangs_that_find_no_second_rack_take_what_there_is():
    """Nothing can be moved: better in one rack than not at all, and else not at all."""
    state = state_for([[2, 2], [1]], gang(1, "a"), gang(4, "b"), gpus=2)
    assert _packed(state, [[9, 0, 0], [0, 1, 2]]) == {0: "machine", 1: "network"}
    state = state_for([[2, 2], [2]], gang(2, "a"), gang(4, "b"), gpus=2)
    assert _packed(state, [[9, 0, 0], [0, 1, 2]]) == {0: "machine", 1: "network"}


def test_prices_clear_the_market():
    """Three gangs of 2 for two machines of 2: a GPU there is worth what the third would pay."""
    state = state_for([[2, 2]], *(gang(2, name) for name in "abc"), gpus=2)
    value = np.array([[6, 0, 0], [5, 0, 0], [4, 0, 0]], float)
    sizes, size_of = np.unique(state.waiting.gang, return_inverse=True)
    prices = clear_price_of_gpus(
        state.machines, state.waiting.gang, value, sizes, size_of, start=2.0
    )
    assert 2.0 <= prices[0] <= 2.5
    assert (prices >= 0).all()
