"""Counting: the table by hand, reasons in words, and blocking gangs that cannot be left out."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.preemption import PROBLEM
from lyra_opt.preemption.counting import Verdict, blocking_gangs, count, required_domains
from tests.draws import draws
from tests.lyra_opt.preemption.draws import draw
from tests.tables import tables

SEEDS = st.integers(0, 2**32 - 1)
KINDS = ("one-shape", "vectors", "levels", "emptying", "minima")
TABLES = tables(__file__)


@pytest.mark.parametrize("case", TABLES["reasons"])
def test_reasons_in_words(case):
    changes, reason = TABLES["reasons"][case]
    found = count(PROBLEM.parse_instance(TABLES["instance"] | changes))
    assert found.reason == reason
    assert (found.verdict is Verdict.IMPOSSIBLE) == bool(reason)


@draws(100)
@given(SEEDS, st.sampled_from(KINDS))
def test_the_table_can_be_checked_by_hand(seed, kind):
    """In a domain, a pod fits as often as the scarcest resource of each node allows."""
    instance = draw(np.random.default_rng(seed), kind)
    left = {node.id: Counter(node.capacity) for node in instance.nodes}
    for each in instance.gangs:
        for pods in () if instance.may_lose_pods(each) else each.pods:
            left[pods.node].subtract({r: a * pods.count for r, a in pods.request.items()})
    domain, _ = required_domains(instance)
    for s, shape in enumerate(instance.demand.shapes if instance.demand else ()):
        sums = Counter()
        for node, d in zip(instance.nodes, domain.tolist(), strict=True):
            fit = [left[node.id][r] // amount for r, amount in shape.request.items() if amount]
            fit += [shape.count, shape.max_per_node or shape.count]
            sums[d] += instance.can_place(shape, node) * min(fit)
        room = count(instance).room[s]
        for d, pods in enumerate(room):
            assert pods <= sums[d] if instance.empty_nodes else pods == sums[d]


@draws(300)
@given(SEEDS, st.sampled_from(KINDS))
def test_blocking_gangs_suffice_and_none_can_be_left_out(seed, kind):
    instance = replace(draw(np.random.default_rng(seed), kind), victims="any")

    def fits(released):
        gangs = [replace(each, is_protected=each.id not in released) for each in instance.gangs]
        return count(replace(instance, gangs=gangs)).verdict is Verdict.FITS

    protected = {each.id for each in instance.gangs if each.is_protected}
    others = {each.id for each in instance.gangs} - protected
    blocking = blocking_gangs(instance)
    assert (blocking is None) == (fits(others) or not fits(others | protected))
    if blocking is not None:
        assert fits(others | set(blocking))
        assert not any(fits(others | set(blocking) - {each}) for each in blocking)
