"""The solver `exact`, the bound and counting: where floats confuse, and on larger clusters."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits, Status
from lyra_opt.preemption import PROBLEM, Demand, Shape, check
from lyra_opt.preemption.bounds.dual_bound import dual_bound
from lyra_opt.preemption.counting import Verdict, count
from lyra_opt.preemption.exact import solver
from lyra_opt.preemption.exact.solver import Exact
from tests.draws import draws
from tests.fuzz.judging import Truth, attempt
from tests.lyra_opt.preemption.draws import KINDS, draw
from tests.lyra_opt.preemption.examples import BEST, example
from tests.lyra_opt.preemption.heuristics.small import cluster, gang, pending
from tests.optima import document_of
from tests.reference.drawing import INFEASIBLE, UNKNOWN
from tests.tables import tables

SEEDS = st.integers(0, 2**32 - 1)


def solve(instance, limits=None, **others):
    rng = np.random.default_rng(0)
    return Exact().solve(instance, limits=limits or Limits(), rng=rng, **others)


def require_valid(instance, found):
    """Require that the solution is valid and costs as much as reported."""
    if found.solution is not None:
        report = check(instance, found.solution)
        assert report.violations == ()
        assert report.objective == found.objective


def require_agreement(instance):
    """Require that brute force confirms the optimum, the bound and the verdict of counting."""
    truth = Truth.of("preemption", document_of(instance))
    if (best := truth.optimum) == UNKNOWN:
        return
    answer, failures = attempt(truth, instance, Exact(), Limits(), None)
    assert failures == []
    verdict = count(instance).verdict
    if best == INFEASIBLE:
        assert answer.status is Status.INFEASIBLE
        assert verdict is not Verdict.FITS
        return
    assert verdict is not Verdict.IMPOSSIBLE
    assert dual_bound(instance) <= best
    assert answer.status is Status.OPTIMAL


def enlarged(rng, instance, factor):
    """Return an instance whose GPUs and weights are multiplied, and nearly but not quite alike."""
    document, held = PROBLEM.instance_document(instance), Counter()
    gangs, demand = document.get("gangs", []), document.get("demand") or {"shapes": []}
    for pods in [*(pods for each in gangs for pods in each["pods"]), *demand["shapes"]]:
        if gpus := pods["request"].get("gpu"):
            pods["request"]["gpu"] = gpus * factor + int(rng.integers(3))
            held[pods.get("node")] += pods.get("count", 1) * pods["request"]["gpu"]
    for each in gangs:
        each["weight"] = each.get("weight", 1) * 2**48 + int(rng.integers(3))
    for node, free in zip(document["nodes"], instance.index.free, strict=True):
        if "gpu" in node["capacity"]:
            gpus = int(free[instance.resources.index("gpu")])
            node["capacity"]["gpu"] = held[node["id"]] + gpus * factor + int(rng.integers(4))
    for budget in document.get("budgets", ()):
        if budget.get("counts") == "lost:gpu":
            budget |= {key: budget.get(key, 0) * factor for key in ("most", "used")}
    return PROBLEM.parse_instance(document)


@draws(200)
@given(SEEDS, st.sampled_from(KINDS), st.sampled_from([10**7 + 1, 2 * 10**14]))
def test_numbers_that_floats_confuse(seed, kind, factor):
    """Amounts and weights that differ by 1 in 2**50 decide what fits and what costs less."""
    rng = np.random.default_rng(seed)
    require_agreement(enlarged(rng, draw(rng, kind), factor))


def test_rounded_prices_do_not_place_a_pod_too_many():
    require_agreement(PROBLEM.parse_instance(tables(__file__)))


def crowded(rng):
    """Return a full cluster, too large for brute force, with gangs on one to five nodes."""
    nodes = int(rng.integers(8, 30))
    free, gangs = dict.fromkeys((f"n{n}" for n in range(nodes)), 8), []
    for number in range(4 * nodes):
        gpus, pods = int(rng.choice([1, 2, 4, 8])), int(rng.choice([1, 1, 1, 2, 3, 5]))
        open_ = [name for name, left in free.items() if left >= gpus]
        if len(open_) >= pods:
            places = [str(name) for name in rng.choice(open_, pods, replace=False)]
            free = {name: left - gpus * (name in places) for name, left in free.items()}
            least = int(rng.integers(1, pods + 1)) if rng.random() < 0.3 else pods
            priority, weight = int(rng.integers(0, 3)), int(rng.integers(0, 4))
            others = {"priority": priority, "weight": weight, "min_pods": least}
            gangs.append(gang(f"g{number}", *places, gpus=gpus, **others))
    gpus = int(rng.choice([2, 3, 4, 8]))
    wanted = sum(left // gpus for left in free.values()) + int(rng.integers(1, 5))
    racks = "".join(rng.choice(list("rst"), nodes))
    level = [None, None, "rack"][rng.integers(3)]
    objective = [None, ("lost:gpu",), ("weighted_gangs",), ("lost_gangs", "moved_pods")]
    return cluster(
        dict.fromkeys(free, 8),
        *gangs,
        racks=racks,
        demand=pending(max(1, wanted // 3) if level else wanted, gpus, level=level),
        objective=objective[rng.integers(4)],
        moves=["none", "none", "victims", "any"][rng.integers(4)],
        victims=["lower", "lower", "none"][rng.integers(3)],
    )


@draws(60)
@given(SEEDS)
def test_removing_nodes_keeps_the_optimum(seed):
    instance = crowded(np.random.default_rng(seed))
    found = solve(instance)
    require_valid(instance, found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(solver._Search, "is_reducible", False)
        plain = solve(instance)
    assert (found.status, found.objective) == (plain.status, plain.objective)
    assert found.status in (Status.OPTIMAL, Status.INFEASIBLE)
    assert found.objective is None or dual_bound(instance) <= found.objective


def test_gangs_on_several_nodes_are_kept_beside_cheap_nodes():
    """Two pods cost 3 GPUs each on eight nodes, 6 and 4 on a and c, but only 4 on c and d."""
    instance = cluster(
        dict.fromkeys("abcdklmnopqr", 8),
        *(gang(name, *"abb") for name in ("first", "second")),
        gang("best", *"ccdd"),
        *(gang(f"on {node}", node, gpus=3) for node in "klmnopqr"),
        demand=pending(2, 8),
        objective=["lost:gpu"],
    )
    assert solve(instance).objective == 4


def test_the_example_is_solved_from_any_start():
    """A worse warm start is improved, and the best one is kept."""
    worse = replace(BEST, lost_gangs=["train-a", "train-b", "batch"])
    for start in (None, worse, BEST):
        assert solve(example(), warm_start=start).solution == BEST


def test_an_impossible_demand_is_explained():
    instance = example(demand=Demand(priority=50, shapes=[Shape(count=7, request={"gpu": 4})]))
    found = solve(instance)
    assert found.status is Status.INFEASIBLE
    assert found.message == (
        "the cluster has room for 5 of 7 pods when all gangs that may lose or move pods are gone"
    )


def test_a_budget_can_make_a_demand_impossible():
    """Counting cannot refute it, so the model must."""
    instance = example(budgets=[{"id": "all", "gangs": ["train-a", "train-b"], "most": 1}])
    assert count(instance).verdict is Verdict.UNDECIDED
    assert solve(instance).status is Status.INFEASIBLE
