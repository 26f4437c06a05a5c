"""Pods that could have stayed: what the measure counts, and that nothing more can return."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.preemption import LostPods, PlacedPods, Solution
from lyra_opt.preemption.checker import check
from lyra_opt.preemption.heuristics.base import State, complete, result_of
from lyra_opt.preemption.put_back import could_stay, put_back
from tests.draws import draws
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending

SEEDS = st.integers(0, 2**32 - 1)


def wasteful(instance):
    """Return the solution that loses all gangs that may be lost; None if it is not valid."""
    state = State(instance)
    state.evict_groups(np.flatnonzero(instance.index.may_lose[instance.index.group_gang]))
    for node in np.flatnonzero(instance.index.must_be_empty):
        state.clear(int(node))
    return result_of(state).solution if complete(state) is None else None


def with_one_more(solution):
    """Yield the solutions in which one lost gang, or one lost pod of a surviving gang, stays."""
    for name in solution.lost_gangs:
        yield replace(solution, lost_gangs=[each for each in solution.lost_gangs if each != name])
    for entry in solution.lost_pods:
        others = [each for each in solution.lost_pods if each is not entry]
        fewer = [replace(entry, count=entry.count - 1)] if entry.count > 1 else []
        yield replace(solution, lost_pods=[*others, *fewer])


def fits(instance, solution, wanted):
    """Return whether pods of the only shape fit in one area; the checker tries each node."""
    demand = instance.demand
    room = {}
    for node in instance.nodes:
        area = node.domains.get(demand.level) if demand.is_level_required else None
        for count in range(wanted + 1):
            pods = (
                [PlacedPods(shape=demand.shapes[0].id, node=node.id, count=count)] if count else []
            )
            violations = check(instance, replace(solution, placements=pods)).violations
            if any(
                f"{where} {node.id!r}" in each for each in violations for where in ("node", "on")
            ):
                if not count:
                    return False
                break
            room[area] = room.get(area, 0) + (count > 0)
    return max(room.values(), default=0) >= wanted


@draws(300)
@given(SEEDS, st.sampled_from(KINDS))
def test_a_solution_is_never_worse_when_pods_return(seed, kind):
    instance = draw(np.random.default_rng(seed), kind)
    if (solution := wasteful(instance)) is not None:
        before, after = check(instance, solution), check(instance, put_back(instance, solution))
        assert after.objective <= before.objective
        if "extra_domains" not in after.terms:
            less = before.lost_pods_in_all - after.lost_pods_in_all
            assert sum(could_stay(instance, solution).values()) == less


@draws(300)
@given(SEEDS, st.sampled_from(["one-shape", "levels", "minima", "vectors"]))
def test_no_further_gang_or_pod_can_return_for_one_shape(seed, kind):
    instance = draw(np.random.default_rng(seed), kind)
    if (solution := wasteful(instance)) is not None:
        found = put_back(instance, solution)
        wanted = sum(each.count for each in found.placements)
        assert fits(instance, found, wanted)
        assert not any(fits(instance, more, wanted) for more in with_one_more(found))


def test_pods_stay_where_the_pending_pod_need_not_be():
    # The plan empties n1 for the pending pod, although n2 has room once "small" has left.
    instance = cluster(
        {"n1": 4, "n2": 4},
        gang("large", "n1", "n1", gpus=2),
        gang("small", "n2", gpus=2),
        gang("elastic", "n2", "n2", min_pods=1),
        demand=pending(1, 2),
    )
    solution = Solution(
        lost_gangs=["large", "small"],
        lost_pods=[LostPods(gang="elastic", group=0)],
        placements=[PlacedPods(shape="pod", node="n1")],
    )
    assert could_stay(instance, solution) == {"large": 2, "elastic": 1}
    kept = put_back(instance, solution)
    assert (kept.lost_gangs, kept.placements[0].node) == (("small",), "n2")


def test_pods_do_not_return_to_nodes_that_are_emptied():
    instance = cluster({"n1": 2, "n2": 2}, gang("a", "n1"), gang("b", "n2"), empty_nodes=1)
    solution = Solution(lost_gangs=["a", "b"], emptied_nodes=["n1"])
    assert put_back(instance, solution).lost_gangs == ("a",)


def test_no_pod_returns_if_the_pending_pods_would_use_a_further_domain():
    instance = cluster(
        {"n1": 2, "n2": 2, "n3": 2},
        gang("a", "n2", gpus=2),
        racks="rrs",
        demand=pending(2, 2, level="rack", is_level_required=False),
        objective=["extra_domains", "lost:gpu"],
    )
    places = [PlacedPods(shape="pod", node=node) for node in ("n1", "n2")]
    solution = Solution(lost_gangs=["a"], placements=places)
    assert put_back(instance, solution) == solution
