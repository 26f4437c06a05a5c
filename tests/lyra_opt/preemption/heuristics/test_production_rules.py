"""On random instances the imitated rules return valid answers, never below the optimum."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.fields import written
from lyra_opt.core.solver import find_solver
from lyra_opt.preemption.heuristics.base import State
from tests.draws import draws
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.lyra_opt.preemption.heuristics.small import answer
from tests.reference import preemption as reference
from tests.reference.drawing import INFEASIBLE, UNKNOWN

if TYPE_CHECKING:
    from lyra_opt.preemption import Instance

RULES = ["kube-pods", "kube-gang", "slurm", "volcano-gang", "volcano-gang-trim", "kueue", "kai"]


@st.composite
def instances(data: st.DrawFn, kinds: tuple[str, ...] = KINDS) -> Instance:
    rng = np.random.default_rng(data(st.integers(0, 2**32 - 1)))
    return draw(rng, data(st.sampled_from(kinds)))


def require_valid(name: str, instance: Instance) -> None:
    rule = find_solver("preemption", name)
    if rule.supports(instance) is not None:
        return
    solution = answer(rule, instance)  # which the checker accepts, or None
    best = None if solution is None else reference.optimum(written(instance))
    if best not in (None, UNKNOWN):
        assert best != INFEASIBLE
        assert rule.objective_of(instance, solution) >= best


@pytest.mark.parametrize("name", [*RULES, "karpenter", "fewest-pods-first"])
@draws(150)
@given(instance=instances())
def test_answers_are_valid_and_not_below_the_optimum(name, instance):
    require_valid(name, instance)


@draws(150)
@given(instances(("empty-nodes",)), st.sampled_from(["victims", "any"]))
def test_emptying_by_moves_is_valid_and_not_below_the_optimum(instance, moves):
    if instance.empty_nodes or instance.index.must_be_empty.any():
        require_valid("karpenter", replace(instance, demand=None, victims="any", moves=moves))


@pytest.mark.parametrize(("name", "wanted"), [("kueue", "shape_count"), ("kube-gang", "shape_min")])
@draws(200)
@given(instance=instances(("one-shape", "required-level", "partial", "vectors")))
def test_no_victim_can_return(name, wanted, instance):
    state = State(instance, getattr(instance.index, wanted))
    rule, rng = find_solver("preemption", name), np.random.default_rng(0)
    if rule.supports(instance) is None and not state.fits() and rule.choose(state, rng):
        for gang in np.flatnonzero(state.kept < state.index.size):
            without = state.copy()
            without.put_back_gang(int(gang))
            assert not without.fits()
