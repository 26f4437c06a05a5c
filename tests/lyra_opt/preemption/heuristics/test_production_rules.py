"""On random instances the imitated rules return valid answers, never below the optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.preemption.heuristics.base import State
from lyra_opt.preemption.heuristics.drain import FewestPodsFirst
from lyra_opt.preemption.heuristics.kai import KAI
from lyra_opt.preemption.heuristics.karpenter import Karpenter
from lyra_opt.preemption.heuristics.kueue import Kueue
from lyra_opt.preemption.heuristics.volcano import VolcanoGang, VolcanoGangTrim
from tests.draws import draws
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.lyra_opt.preemption.heuristics.small import answer, optimum
from tests.reference.preemption import INFEASIBLE

if TYPE_CHECKING:
    from lyra_opt.preemption import Instance
    from lyra_opt.preemption.heuristics.base import PreemptionHeuristic

RULES = [VolcanoGang(), VolcanoGangTrim(), Kueue(), KAI(), FewestPodsFirst()]


@st.composite
def instances(data: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> Instance:
    rng = np.random.default_rng(data(st.integers(0, 2**32 - 1)))
    return draw(rng, data(st.sampled_from(kinds)))


def require_valid(rule: PreemptionHeuristic, instance: Instance) -> None:
    solution = answer(rule, instance)  # which the checker accepts, or None
    if solution is not None:
        best = optimum(instance)
        assert best != INFEASIBLE
        assert rule.objective_of(instance, solution) >= best


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
@draws(150)
@given(instances())
def test_answers_are_valid_and_not_below_the_optimum(rule, instance):
    if rule.supports(instance) is None:
        require_valid(rule, instance)


@draws(150)
@given(instances(("empty-nodes",)), st.sampled_from(["victims", "any"]))
def test_emptying_by_moves_is_valid_and_not_below_the_optimum(instance, moves):
    if instance.empty_nodes or instance.index.must_be_empty.any():
        require_valid(Karpenter(), replace(instance, demand=None, victims="any", moves=moves))


@draws(300)
@given(instances(("one-shape", "required-level", "partial")))
def test_no_victim_of_kueue_can_return(instance):
    state = State(instance)
    if state.fits() or not Kueue().choose(state, np.random.default_rng(0)):
        return
    for gang in np.flatnonzero(state.kept < state.index.size):
        without = state.copy()
        without.put_back_gang(int(gang))
        assert not without.fits()
