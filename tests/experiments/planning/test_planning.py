"""Plans are optimal: they agree with an enumeration that shares no code with them."""

from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from itertools import combinations

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.core.result import Status
from lyra_opt.experiments.planning.picture import plan_picture
from lyra_opt.experiments.planning.planning import explain, plan
from lyra_opt.experiments.planning.questions import Choices, Consolidate, Drain, Fit
from lyra_opt.experiments.planning.words import headline, hurt_table, limits, proof_sentence
from lyra_opt.instances.snapshots.snapshot import SnapshotNode
from tests.experiments.planning.clusters import (
    RACK,
    cluster,
    gang,
    node,
    pending,
    planned,
    random_cluster,
)
from tests.tables import tables

TABLES = tables(__file__)

SEEDS = [pytest.param(range(40)), pytest.param(range(40, 5_000), marks=pytest.mark.slow)]


def subsets(items):
    """Yield all subsets of a list."""
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def cost(snapshot, leaving):
    """Return what the loss of some pods costs, or None if it is not allowed.

    `leaving` has the names of the pods that must leave. A gang with too few pods is lost whole. The
    value compares as the default objective does: gangs by priority, GPUs, pods.
    """
    lost, gpus, pods, gone = Counter(), 0, 0, set()
    for each in snapshot.gangs:
        out = [pod for pod in each.pods if pod.name in leaving]
        if out and each.protected_because:
            return None
        if len(each.pods) - len(out) < each.min_pods:
            out = each.pods
            lost[each.priority] += 1
        gone |= {pod.name for pod in out}
        gpus += sum(pod.request["gpu"] for pod in out)
        pods += len(out)
    return tuple(lost[priority] for priority in (10, 5, 0)), gpus, pods, gone


def free_gpus(snapshot, gone=()):
    """Return the free GPUs of each node once some pods are gone."""
    free = {each.name: each.capacity["gpu"] for each in snapshot.nodes}
    for each in snapshot.gangs:
        for pod in each.pods:
            if pod.name not in gone:
                free[pod.node] -= pod.request["gpu"]
    return free


def terms_of(found):
    """Return the value of a plan, with that of the drain before it, in the form of `cost`."""
    terms = Counter(found.answer.measures["terms"])
    terms.update(found.before.answer.measures["terms"] if found.before else {})
    gangs = tuple(terms[f"lost_gangs@{priority}"] for priority in (10, 5, 0))
    return gangs, terms["lost:gpu"], terms["lost_pods"]


def best(costs):
    """Return the least of the allowed costs, without the pods; None if none is allowed."""
    return min((each[:3] for each in costs if each is not None), default=None)


def require_equal(found, expected):
    """Require that a plan has the enumerated value, or proves that no plan exists."""
    if expected is None:
        assert found.answer.status is Status.INFEASIBLE
    else:
        assert found.answer.status is Status.OPTIMAL
        assert terms_of(found) == expected


@pytest.mark.parametrize("seeds", SEEDS)
def test_a_drain_is_the_best_of_all_choices_of_nodes(seeds):
    for seed in seeds:
        snapshot, rng = random_cluster(seed)
        open_nodes = [each.name for each in snapshot.nodes if not each.closed_because]
        count = int(rng.integers(1, 3))
        if count > len(open_nodes):
            continue
        costs = []
        for chosen in combinations(open_nodes, count):
            pods = [pod for each in snapshot.gangs for pod in each.pods]
            costs.append(cost(snapshot, {pod.name for pod in pods if pod.node in chosen}))
        require_equal(plan(snapshot, Drain(count=count)), best(costs))


@pytest.mark.parametrize("drained", [(), ("n0",), ("n0", "n1")])
@pytest.mark.parametrize("seeds", SEEDS)
def test_pending_pods_fit_at_least_cost(seeds, drained):
    """A drain and the plan after it cost as little as the best choice for both together."""
    for seed in seeds:
        snapshot, rng = random_cluster(seed)
        new = pending(int(rng.integers(1, 4)), int(rng.choice([1, 2, 4])), int(rng.choice([5, 10])))
        level = str(rng.choice(["", "rack"]))
        racks = {"r0", "r1"} if level else {"any"}
        pods = [pod for each in snapshot.gangs for pod in each.pods]
        forced = {pod.name for pod in pods if pod.node in drained}
        lower = [each for each in snapshot.gangs if each.priority < new.priority]
        names = [pod.name for each in lower for pod in each.pods if not each.protected_because]
        costs = []
        for leaving in subsets(names):
            value = cost(snapshot, forced | set(leaving))
            if value is None:
                continue
            room = Counter()
            free = free_gpus(snapshot, value[3])
            for each in snapshot.nodes:
                if not each.closed_because and each.name not in drained:
                    rack = each.labels[RACK] if level else "any"
                    room[rack] += free[each.name] // new.shapes[0].request["gpu"]
            if any(room[rack] >= new.min_pods for rack in racks):
                costs.append(value)
        found = plan(snapshot, Fit(gang=new, level=level, drained=drained))
        require_equal(found, best(costs))


def can_move(pods, free):
    """Return whether all pods fit into the free GPUs of some nodes."""
    if not pods:
        return True
    needed = pods[0].request["gpu"]
    return any(
        can_move(pods[1:], {**free, name: room - needed})
        for name, room in free.items()
        if room >= needed
    )


@pytest.mark.parametrize(
    "seeds", [pytest.param(range(20)), pytest.param(range(20, 1_000), marks=pytest.mark.slow)]
)
def test_no_more_nodes_can_be_emptied_by_moves(seeds):
    """Pods that leave an emptied node go to open nodes that stay; nobody else need move."""
    for seed in seeds:
        snapshot, _ = random_cluster(seed, most_nodes=4, most_gangs=3)
        open_nodes = [each.name for each in snapshot.nodes if not each.closed_because]
        if not open_nodes:
            continue
        most = 0
        for chosen in subsets(open_nodes):
            moving = [
                (pod, each) for each in snapshot.gangs for pod in each.pods if pod.node in chosen
            ]
            free = free_gpus(snapshot)
            room = {name: free[name] for name in open_nodes if name not in chosen}
            is_allowed = not any(each.protected_because for _, each in moving)
            if is_allowed and can_move([pod for pod, _ in moving], room):
                most = max(most, len(chosen))
        found = plan(snapshot, Consolidate())
        assert (len(found.nodes) if found.exists else 0) == most
        assert found.most_nodes == most


def test_pods_that_start_again_fit_beside_everything_else():
    for seed in range(60):
        snapshot, _ = random_cluster(seed)
        found = plan(snapshot, Drain(nodes=("n0",)))
        if not found.exists:
            continue
        gone = {pod.name for each in found.disruptions for pod in each.lost}
        free = free_gpus(snapshot, gone)
        for each in found.disruptions:
            for pod, name in zip(each.lost, each.restarts_on, strict=False):
                free[name] -= pod.request["gpu"]
                assert name != "n0"
                assert free[name] >= 0


def test_room_for_a_restart_is_not_promised_while_pending_pods_may_take_it():
    """The scheduler may give the room to any pending pod that fits into it."""
    nodes, jobs = [node("a"), node("b")], [gang("one", ["a"], 2)]
    for gpus, unless in ((2, ", unless the 3 pending pods take it"), (3, ""), (5, "")):
        waiting = (pending(3, gpus, 0),) if gpus != 3 else ()
        snapshot = cluster(nodes, jobs, pending=waiting)
        found = plan(snapshot, Drain(nodes=("a",)))
        assert hurt_table(found).rows()[0][-1] == f"at once on b{unless}"


def test_a_picture_names_jobs_and_hosts_and_leaves_out_nodes_without_gpus():
    hosts = [f"gpu-node-{letter}.eu.example.org" for letter in "ab"]
    nodes = [*map(node, hosts), SnapshotNode(name="cpu-1.eu.example.org", capacity={"cpu": 8000})]
    jobs = [gang("training-of-a-large-model-7", hosts[:1], 4)]
    axes = plan_picture(plan(cluster(nodes, jobs), Drain(nodes=(hosts[0],)))).axes[0]
    assert axes.get_title(loc="left") == f"Drain {hosts[0]}:\n1 job stopped"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["gpu-node-a", "gpu-node-b"]
    assert "team/training-of-a-large-model-7" in [text.get_text() for text in axes.texts]


def test_a_picture_shows_the_drain_before_the_plan_and_slices_of_gpus():
    """A MIG slice is as wide as a GPU, so that nodes with slices alone are visible."""
    slices = SnapshotNode(name="mig", capacity={"nvidia.com/mig-1g.10gb": 7})
    snapshot = cluster([node("a", 4), node("b", 2), slices], [gang("x", ["a"])])
    asked = Fit(gang=pending(1, 2, 9), drained=("a", "mig"))
    drain, after = plan_picture(plan(snapshot, asked)).axes
    assert drain.get_title(loc="left").startswith("Drain")
    assert drain.get_title(loc="left").endswith("1 job stopped")
    assert after.get_title(loc="left").endswith("0 further jobs stopped")
    assert "team/new" in [text.get_text() for text in after.texts]
    assert 7 in {bar.get_width() for bar in drain.patches}
    assert drain.get_xlabel().startswith("GPUs and parts of GPUs")


def test_rows_of_one_owner_name_their_pods():
    web = gang("web", ["a"])
    jobs = [replace(web, id=f"team/web-{n}", pods=gang(f"web-{n}", ["a"]).pods) for n in (1, 2)]
    found = plan(cluster([node("a"), node("b")], jobs), Drain(nodes=("a",)))
    named = [f"team/web (Job): web-{number}-0" for number in (1, 2)]
    assert [row[0] for row in hurt_table(found).rows()] == named


def test_only_pods_of_emptied_nodes_move():
    """The commands drain the emptied nodes, so they cannot move pods of others.

    Node a could be emptied if the pod on b made room for it by moving to c.
    """
    nodes = [node("a", 8), node("b", 8), node("c", 4)]
    jobs = [gang("large", ["a"], 6), gang("small", ["b"], 4), gang("other", ["c"], 1)]
    found = plan(cluster(nodes, jobs), Consolidate())
    moved = {pod.node for each in found.disruptions for pod, _ in each.moved}
    assert moved <= set(found.nodes)
    assert found.nodes == ("c",)


@pytest.mark.parametrize(
    ("cost", "chosen"), [("gangs", "a"), ("pods", "b"), ("gpus", "a"), ("time", "b")]
)
def test_the_cost_decides_which_node_is_drained(cost, chosen):
    nodes = [node("a"), node("b")]
    one = gang("one", ["a"] * 3, start_s=0.0)
    two = [gang(f"two-{number}", ["b"], 2, start_s=90.0) for number in range(2)]
    found = plan(cluster(nodes, [one, *two], newest_s=100.0), Drain(count=1), Choices(cost=cost))
    assert found.nodes == (chosen,)


@pytest.mark.parametrize(("gangs", "said"), TABLES["proofs"])
def test_proofs_say_of_what_there_is_only_one(gangs, said):
    """Two numbers 1 in a proof are told apart, because each stands with its noun."""
    jobs = [gang(name, [at], gpus, priority=priority) for name, at, gpus, priority in gangs]
    found = plan(cluster([node("a"), node("b")], jobs), Drain(count=1))
    assert proof_sentence(found) == said


@pytest.mark.parametrize(("busy", "said"), TABLES["empty"])
def test_empty_nodes_are_counted_in_words(busy, said):
    jobs = [gang(name, [name], 4) for name in busy]
    assert headline(plan(cluster([node("a"), node("b")], jobs), Consolidate())) == said


def test_a_search_reports_its_incumbent_and_its_bound(monkeypatch):
    told, (snapshot, _) = [], random_cluster(3)
    observer = nullcontext(lambda kind, *_: told.append(kind))
    monkeypatch.setattr("lyra_opt.experiments.planning.planning.solving", lambda *_: observer)
    plan(snapshot, Fit(gang=pending(2, 2, 10)), shows_progress=True)
    assert {"objective", "dual_bound"} <= set(told)


@pytest.mark.parametrize("name", TABLES["plans"])
def test_plans_by_hand(name):
    """The chosen nodes, what they cost, and what is said about them."""
    case = TABLES["plans"][name]
    if "refused" in case:
        with pytest.raises(UserError, match=case["refused"]):
            planned(case)
        return
    found = planned(case)
    assert found.exists == case.get("exists", True)
    assert found.nodes == tuple(case.get("chosen", found.nodes))
    terms = case.get("terms", {})
    assert not terms or terms.items() <= found.answer.measures["terms"].items()
    if "blocking" in case:
        assert [each.id for each in found.blocking] == case["blocking"]
    assert "first" not in case or case["first"] in hurt_table(found).rows()[0]
    assert case.get("headline", "") in headline(found)
    assert "proof" not in case or proof_sentence(found).startswith(case["proof"])
    assert "limit" not in case or case["limit"] in limits(found)
    for node_name, expected in case.get("explained", {}).items():
        why = explain(found, node_name)
        assert why.is_used == (node_name in found.nodes)
        is_reason = isinstance(expected, str)
        told = why.reason if is_reason else why.other.measures["terms"]["lost_gangs@0"]
        assert told == expected, node_name
