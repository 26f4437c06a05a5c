"""Rules on random instances; `tests.test_right_answers` confirms the claims of all rules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits
from lyra_opt.core.solver import find_solver
from lyra_opt.preemption.heuristics.base import State
from tests.draws import draws
from tests.fuzz.judging import Truth, attempt
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.optima import document_of


@st.composite
def instances(data, kinds=KINDS):
    rng = np.random.default_rng(data(st.integers(0, 2**32 - 1)))
    return draw(rng, data(st.sampled_from(kinds)))


def is_best(name, instance):
    """Compare all claims of a rule with brute force; return whether its answer is best.

    None stands for an instance without a known optimum.
    """
    rule, truth = find_solver("preemption", name), Truth.of("preemption", document_of(instance))
    answer, failures = attempt(truth, instance, rule, Limits(), None)
    assert failures == []
    return None if isinstance(truth.optimum, str) else answer.objective == truth.optimum


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_fast_solves_nearly_all_small_instances_to_the_optimum(kind):
    rng = np.random.default_rng(0)
    feasible = [each for _ in range(60) if (each := is_best("fast", draw(rng, kind))) is not None]
    assert sum(feasible) >= 0.93 * len(feasible)


@pytest.mark.parametrize(("name", "wanted"), [("kueue", "shape_count"), ("kube-gang", "shape_min")])
@draws(200)
@given(instance=instances(("one-shape", "levels", "minima", "vectors")))
def test_no_victim_can_return(name, wanted, instance):
    state = State(instance, getattr(instance.index, wanted))
    rule, rng = find_solver("preemption", name), np.random.default_rng(0)
    if rule.supports(instance) is None and not state.fits() and rule.choose(state, rng):
        for gang in np.flatnonzero(state.kept < state.index.size):
            without = state.copy()
            without.put_back_gang(int(gang))
            assert not without.fits()
