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
from lyra_opt.experiments.planning.questions import Choices, Consolidate, Drain, Fit, selector_of
from lyra_opt.experiments.planning.words import headline, hurt_table, limits, proof_sentence
from lyra_opt.instances.snapshots.placement import Placement, Taint
from lyra_opt.instances.snapshots.snapshot import RESERVED, Owner, SnapshotNode
from tests.experiments.planning.clusters import RACK, cluster, gang, node, pending, random_cluster
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


def test_pods_that_may_run_nowhere_else_are_named():
    here = Placement(selector=((RACK, "r0"),))
    only = gang("only", ["a"])
    pods = tuple(replace(pod, placement=here) for pod in only.pods)
    snapshot = cluster([node("a"), node("b", rack="r1")], [replace(only, pods=pods)])
    found = plan(snapshot, Drain(nodes=("a",)))
    assert not found.disruptions[0].can_return
    assert "not before one of these nodes is open again" in hurt_table(found).rows()[0]


def test_budgets_are_exceeded_last_or_never():
    from lyra_opt.instances.snapshots.snapshot import DisruptionBudget

    nodes = [node("a"), node("b")]
    jobs = [gang("cheap", ["a"]), gang("dear", ["b"], 4, priority=9)]
    budget = DisruptionBudget(id="team/budget", gangs=("team/cheap",), most=0)
    snapshot = cluster(nodes, jobs, budgets=(budget,))
    assert plan(snapshot, Drain(count=1)).nodes == ("b",)
    both = plan(snapshot, Drain(count=2))
    assert both.answer.measures["terms"]["budget_excess"] == 1
    assert not plan(snapshot, Drain(count=2), Choices(keeps_budgets=True)).exists
    wide = replace(budget, gangs=("team/wide",), most=1)
    snapshot = cluster(nodes, [gang("wide", "ab", min_pods=1)], budgets=(wide,))
    question = Fit(gang=pending(1, 4, 5), drained=("a",))
    assert plan(snapshot, question).answer.measures["terms"]["budget_excess"] == 1


@pytest.mark.parametrize(
    ("cost", "chosen"), [("gangs", "a"), ("pods", "b"), ("gpus", "a"), ("time", "b")]
)
def test_the_cost_decides_which_node_is_drained(cost, chosen):
    nodes = [node("a"), node("b")]
    one = gang("one", ["a"] * 3, start_s=0.0)
    two = [gang(f"two-{number}", ["b"], 2, start_s=90.0) for number in range(2)]
    found = plan(cluster(nodes, [one, *two], newest_s=100.0), Drain(count=1), Choices(cost=cost))
    assert found.nodes == (chosen,)


def test_an_annotation_can_name_the_cost_or_the_checkpoint():
    nodes = [node("a"), node("b")]
    jobs = [
        gang("a", ["a"], annotations={"cost": "7", "saved": "1970-01-01T00:01:35Z"}),
        gang("b", ["b"], annotations={"cost": "3", "saved": "1970-01-01T00:00:00Z"}),
    ]
    snapshot = cluster(nodes, jobs, newest_s=100.0)
    for key, chosen in (("cost", "b"), ("saved", "a")):
        found = plan(snapshot, Drain(count=1), Choices(cost=f"annotation:{key}"))
        assert found.nodes == (chosen,)


def test_proofs_name_the_nodes_that_were_given():
    """Draining one named node says nothing about other choices of one node."""
    snapshot = cluster([node("a"), node("b"), node("c")], [gang("one", ["a"]), gang("two", ["b"])])
    given = proof_sentence(plan(snapshot, Drain(nodes=("a",))))
    assert given == "All nodes are named, so there is no other choice."
    partly = proof_sentence(plan(snapshot, Drain(nodes=("a",), count=1)))
    assert partly.startswith("Proved: every choice of 2 nodes with a stops at least 1 job")


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


def test_protected_pods_need_force():
    jobs = [gang("bare", ["a"], protected_because="has no controller", needs_force=True)]
    snapshot = cluster([node("a")], jobs)
    found = plan(snapshot, Drain(nodes=("a",)))
    assert [each.id for each in found.blocking] == ["team/bare"]
    assert plan(snapshot, Drain(nodes=("a",)), Choices(is_forced=True)).exists


def test_pods_without_a_controller_are_named():
    bare = gang("bare", ["a"], owner=Owner(kind="Pod", name="bare"), needs_force=True)
    bare = replace(bare, protected_because="has no controller", can_be_requeued=False)
    snapshot = cluster(map(node, "abc"), [bare])
    kept = (
        "Nodes with pods that nothing creates again are not chosen; --force allows it: team/bare."
    )
    assert kept in limits(plan(snapshot, Drain(count=1)))
    gone = plan(snapshot, Drain(nodes=("a", "b", "c")), Choices(is_forced=True))
    assert "Pods without a controller are lost for good: team/bare." in limits(gone)
    assert hurt_table(gone).rows()[0][-1] == "not by itself"


def test_a_search_reports_its_incumbent_and_its_bound(monkeypatch):
    told, (snapshot, _) = [], random_cluster(3)
    observer = nullcontext(lambda kind, *_: told.append(kind))
    monkeypatch.setattr("lyra_opt.experiments.planning.planning.solving", lambda *_: observer)
    plan(snapshot, Fit(gang=pending(2, 2, 10)), shows_progress=True)
    assert {"objective", "dual_bound"} <= set(told)


def test_a_fit_uses_only_the_nodes_that_may_be_chosen():
    snapshot = cluster([node("a"), node("b", rack="r1"), node("c", rack="r1")])
    question = Fit(gang=pending(1, 4, 0), among=selector_of("rack=r1"), excluding=("b",))
    assert plan(snapshot, question).nodes == ("c",)
    assert not plan(snapshot, replace(question, drained=("c",))).exists


def test_a_plan_that_may_stop_nobody_says_so():
    snapshot = cluster([node("a")], [gang("one", ["a"], 4)])
    named = headline(plan(snapshot, Fit(gang=pending(1, 4, 0))))
    assert "No running job has a priority below 0, that of team/new. It would be" in named


def test_jobs_that_the_scheduler_may_not_preempt_can_still_be_drained():
    jobs = [gang("kept", ["a"], 4, not_preempted_because="its partition has PreemptMode=OFF")]
    snapshot = cluster([node("a")], jobs)
    assert plan(snapshot, Drain(nodes=("a",))).exists
    assert not plan(snapshot, Fit(gang=pending(1, 4, 10))).exists


def test_nodes_that_an_earlier_plan_reserved_are_not_chosen():
    nodes = [node("a", taints=(Taint(key=RESERVED, value="other"),)), node("b"), node("c")]
    snapshot = cluster(nodes, [gang("one", "b"), gang("two", "c", 2)])
    for question, chosen in (
        (Drain(count=1), ("b",)),
        (Drain(nodes=("a",)), ("a",)),
        (Consolidate(), ("b",)),
        (Fit(gang=pending(1, 1, 0)), ("b",)),
    ):
        found = plan(snapshot, question)
        assert found.nodes == chosen
        reason = "" if "a" in chosen else "reserved by an earlier plan"
        assert explain(found, "a").reason == reason


def test_explanations_solve_the_opposite_decision():
    nodes = [node("a"), node("b"), node("c", closed_because="cordoned")]
    jobs = [gang("one", ["a"]), gang("two", ["b"]), gang("three", ["b"])]
    found = plan(cluster(nodes, jobs), Drain(count=1))
    for name, is_used, gangs in (("a", True, 2), ("b", False, 2)):
        why = explain(found, name)
        assert why.is_used is is_used
        assert why.other.measures["terms"]["lost_gangs@0"] == gangs
    assert explain(found, "c").reason == "cordoned"
    fits = plan(cluster(nodes, jobs), Fit(gang=pending(1, 4, 10)))
    assert fits.nodes == ("a",)
    assert explain(fits, "b").other.measures["terms"]["lost_gangs@0"] == 2
    assert explain(fits, "a").other.measures["terms"]["lost_gangs@0"] == 2


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Drain(nodes=("nod",)), 'no node "nod"'),
        (Drain(count=3), "only 2 nodes can be chosen"),
        (Drain(count=1, among=selector_of("rack=x")), 'no node has the value "x"'),
        (Fit(gang=pending(1, 1, 0), level="block"), 'no node has a label for the level "block"'),
        (
            Fit(gang=pending(1, 1, 0), gpu_type="h100"),
            'no node has GPUs of type "h100"',
        ),
    ],
)
def test_questions_about_unknown_things_are_refused(question, message):
    with pytest.raises(UserError, match=message):
        plan(cluster([node("a"), node("b")]), question)
