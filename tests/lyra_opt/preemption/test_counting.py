"""Counting: the table by hand, reasons in words, and blocking gangs that cannot be left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.preemption import Demand, Shape
from lyra_opt.preemption.counting import Verdict, blocking_gangs, count
from tests.draws import draws
from tests.lyra_opt.preemption.draws import draw
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending

SEEDS = st.integers(0, 2**32 - 1)
KINDS = ("one-shape", "vectors", "required-level", "preferred-level", "empty-nodes", "partial")


def one_rack(pods, gpus, **others):
    return pending(pods, gpus, level="rack", **others)


GPUS = {"a": 8, "b": 8, "c": 4}
SERVING = gang("serve", "a", gpus=4, is_protected=True)
REASONS = {
    "no-node": (
        cluster(GPUS, demand=pending(1, 9)),
        "no node has 9 gpu, even when empty",
    ),
    "no-allowed-node": (
        cluster(GPUS, demand=Demand(shapes=[Shape(count=1, request={}, selector={"z": "a"})])),
        "no node that the demand allows has room, even when empty",
    ),
    "cluster": (
        cluster(GPUS, SERVING, demand=pending(3, 5)),
        "the cluster has room for 1 of 3 pods when all gangs that may lose or move pods are gone",
    ),
    "rack": (
        cluster(GPUS, SERVING, racks="rrs", demand=one_rack(4, 4)),
        "rack 'r' has room for 3 of 4 pods when all gangs that may lose or move pods are gone; the "
        "largest of 2 racks",
    ),
    "emptied": (
        cluster(GPUS, SERVING, demand=pending(3, 4), empty_nodes=1),
        None,
    ),
    "too-many-emptied": (
        cluster(GPUS, SERVING, demand=pending(3, 4), empty_nodes=2),
        "the cluster has room for 1 of 3 pods when all gangs that may lose or move pods are gone and 2 "
        "nodes emptied",
    ),
    "held": (
        cluster(GPUS, SERVING, empty_nodes=3),
        "3 nodes must be chosen to be emptied, but only 2 of 3 can be; pods that can neither be "
        "lost nor move hold the others",
    ),
    "volume": (
        cluster(GPUS, gang("job", "a", gpus=7), demand=pending(2, 7), moves="any", victims="none"),
        "the pending pods request 14 gpu, but the usable nodes have only 13 beside the pods that "
        "cannot be lost",
    ),
}


@pytest.mark.parametrize("case", REASONS)
def test_reasons_in_words(case):
    instance, reason = REASONS[case]
    found = count(instance)
    assert found.reason == (reason or "")
    assert (found.verdict is Verdict.IMPOSSIBLE) == (reason is not None)


@draws(100)
@given(SEEDS, st.sampled_from(KINDS))
def test_the_table_can_be_checked_by_hand(seed, kind):
    """Capacity is what stays and what is available; a pod fits as often as the scarcest allows."""
    instance = draw(np.random.default_rng(seed), kind)
    found = count(instance)
    for n, node in enumerate(instance.nodes):
        stays = {
            r: sum(
                pods.request.get(r, 0) * pods.count
                for each in instance.gangs
                if not instance.may_lose_pods(each)
                for pods in each.pods
                if pods.node == node.id
            )
            for r in instance.resources
        }
        assert found.staying[n].tolist() == list(stays.values())
        shapes = instance.demand.shapes if instance.demand else ()
        for counted, shape in zip(found.shapes, shapes, strict=True):
            fit = [
                (node.capacity.get(r, 0) - stays[r]) // amount
                for r, amount in shape.request.items()
                if amount
            ]
            fit += [shape.count, shape.max_per_node or shape.count]
            assert counted.node_room[n] == instance.can_place(shape, node) * min(fit)
            assert counted.domain_room.max() <= counted.node_room.sum()


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
