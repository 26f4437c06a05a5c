"""Nodes, pods, budgets and files of Kubernetes and KAI."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from typing import Any

import pytest

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.instances.snapshots.placement import Requirement, Taint, Toleration
from lyra_opt.instances.snapshots.reading import read_snapshot
from tests.instances.snapshots.objects import custom, listed, node, owner, pod, snapshot_of

JOB = owner("Job", "j")


def request_of(folder, **spec: Any):
    """Return the request of a pod without GPUs."""
    (gang,) = snapshot_of(folder, node(), pod(gpus=0, **spec)).gangs
    return gang.pods[0].request


def container(cpu: str, restart: str | None = None):
    return {"resources": {"requests": {"cpu": cpu}}} | (
        {"restartPolicy": restart} if restart else {}
    )


@pytest.mark.parametrize(
    ("init", "containers", "cpu"),
    [
        ([], ["1", "500m"], 1500),
        (["4"], ["1"], 4000),
        (["1"], ["4"], 4000),
        (["4", "2"], ["1"], 4000),
        ([("1", "Always"), "4"], ["2"], 5000),
        (["4", ("1", "Always")], ["2"], 4000),
        ([("1", "Always"), ("2", "Always")], ["2"], 5000),
        ([("1", "Always"), ("2", "Always"), "1"], ["500m"], 4000),
    ],
)
def test_the_request_of_init_and_sidecar_containers(tmp_path, init, containers, cpu):
    spec = {
        "initContainers": [
            container(each) if isinstance(each, str) else container(*each) for each in init
        ],
        "containers": [container(each) for each in containers],
    }
    assert request_of(tmp_path, **spec)["cpu"] == cpu


def test_overhead_resources_of_the_pod_and_limits_count(tmp_path):
    spec: dict[str, Any] = {
        "overhead": {"cpu": "250m"},
        "resources": {"requests": {"cpu": "3"}},
        "containers": [{"resources": {
            "requests": {"cpu": "1", "memory": "1Gi"},
            "limits": {"nvidia.com/mig-1g.10gb": "2", "memory": "2Gi"},
        }}],
    }  # fmt: skip
    assert request_of(tmp_path, **spec) == {
        "cpu": 3250, "memory": 2**30, "nvidia.com/mig-1g.10gb": 2, "pods": 1,
    }  # fmt: skip


def test_states_of_nodes(tmp_path):
    ready = {"type": "Ready", "status": "True"}
    snapshot = snapshot_of(
        tmp_path,
        node("open", conditions=[ready]),
        node("cordoned", spec={"unschedulable": True}),
        node("lost", spec={"unschedulable": True}, conditions=[ready | {"status": "Unknown"}]),
        node("tainted", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}, labels={"l": "v"}),
        pod(where="open"),
    )
    closed = {each.name: each.closed_because for each in snapshot.nodes}
    assert closed == {"open": "", "cordoned": "cordoned", "lost": "not ready", "tainted": ""}
    assert snapshot.node["tainted"].taints == (Taint("a", "", "NoSchedule"),)
    assert snapshot.node["tainted"].labels == {"l": "v"}
    assert snapshot.node["open"].capacity == {
        "cpu": 64000, "memory": 2**39, "gpu": 8, "pods": 110,
    }  # fmt: skip


def test_whole_gpus_of_two_makers_keep_their_names(tmp_path):
    amd = node("n2", gpus=0, allocatable={"amd.com/gpu": "4", "nvidia.com/mig-1g.10gb": "7"})
    snapshot = snapshot_of(tmp_path, node(), amd, pod())
    assert snapshot.node["n2"].capacity["amd.com/gpu"] == 4
    assert snapshot.gangs[0].pods[0].request["nvidia.com/gpu"] == 1
    snapshot = snapshot_of(tmp_path, node("n1", gpus=0), amd, pod(gpus=0))
    assert snapshot.node["n2"].capacity["gpu"] == 4
    assert snapshot.node["n2"].capacity["nvidia.com/mig-1g.10gb"] == 7


def test_pods_that_do_not_count_and_pods_that_stay(tmp_path):
    snapshot = snapshot_of(
        tmp_path,
        node(),
        pod("ended", status={"phase": "Failed"}),
        pod("leaving", deletionTimestamp="2026-01-01T00:00:00Z", gpus=3),
        pod("daemon", owned_by=owner("DaemonSet", "d", "apps/v1"), gpus=0),
        pod("mirror", owned_by=owner("Node", "n1", "v1"), gpus=0),
        pod("static", annotations={"kubernetes.io/config.mirror": "x"}, gpus=0),
    )
    assert snapshot.gangs == snapshot.pending == ()
    assert snapshot.node["n1"].held == {"cpu": 3000, "pods": 3}
    assert snapshot.assumptions == (
        "1 pod being deleted, with 3 GPUs: their room is taken as free.",
    )


def test_the_priority_of_a_pod(tmp_path):
    def priority_class(name, value, **more):
        return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value,
                "metadata": {"name": name}, **more}  # fmt: skip

    pods = [
        pod("a", priority=3, priorityClassName="high"),
        pod("b", priorityClassName="high"),
        pod("c"),
        pod("d", priorityClassName="gone"),
    ]
    high, low = priority_class("high", 9), priority_class("low", 1, globalDefault=True)
    snapshot = snapshot_of(tmp_path, node(), high, low, *pods)
    assert [gang.priority for gang in snapshot.gangs] == [3, 9, 1, 0]
    assert snapshot.priorities == {"high": 9, "low": 1}
    assert snapshot.assumptions == (
        "1 pod of the priority class gone, which no file contains: taken as 0.",
    )


def test_the_placement_of_a_pod(tmp_path):
    term = {
        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
    }
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    more = {"nodeSelector": {"disk": "ssd"}, "affinity": {"nodeAffinity": affinity},
            "tolerations": [{"operator": "Exists"}], "owned_by": JOB}  # fmt: skip
    pods = [pod("a", None, **more), pod("b", None, **more)]
    snapshot = snapshot_of(tmp_path, node(), *pods)
    (shape,) = snapshot.pending[0].shapes
    assert shape.names == ("a", "b")
    assert shape.placement.selector == (("disk", "ssd"),)
    conditions = Requirement("zone", "In", ("a",)), Requirement("metadata.name", "NotIn", ("n1",))
    assert shape.placement.terms == (conditions,)
    assert shape.placement.tolerations == (Toleration(operator="Exists"),)


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, "ab"),
        (None, ""),
        ({"matchLabels": {"app": "a"}}, "a"),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["b"]}]}, "b"),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["b"]}]}, "a"),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "ab"),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, ""),
    ],
)
@pytest.mark.parametrize(("allowed", "most"), [(1, 1), (-2, 0), (None, 0)])
def test_a_budget_selects_pods_of_its_namespace(tmp_path, selector, selected, allowed, most):
    budget = custom("PodDisruptionBudget", "policy/v1", "b", {"selector": selector})
    budget["status"] = {} if allowed is None else {"disruptionsAllowed": allowed}
    pods = [pod(name, labels={"app": name}, owned_by=JOB) for name in "ab"]
    other = pod("c", labels={"app": "a"}, namespace="other", owned_by=owner("Job", "k"))
    for each in pods:
        each["metadata"]["ownerReferences"] = [owner("StatefulSet", "s", "apps/v1")]
    snapshot = snapshot_of(tmp_path, node(), *pods, other, budget)
    gangs = tuple(f"team/{name}" for name in selected)
    assert [(each.gangs, each.most) for each in snapshot.budgets] == [(gangs, most)] * bool(gangs)
    assert bool(snapshot.assumptions) == (allowed is None and bool(gangs))


def test_annotations_are_kept_if_they_are_numbers_or_times(tmp_path):
    marks = {"a": "17", "b": "-1.5e3", "c": "2026-01-01T00:00:00Z", "d": "secret", "e": "1 GPU"}
    job = custom("Job", "batch/v1", "j", annotations={"a": "18"})
    two = [
        pod("x", annotations=marks, owned_by=JOB, status={"startTime": "2026-01-01T00:00:05Z"}),
        pod("y", owned_by=JOB, status={"startTime": "2026-01-01T00:00:09Z"}),
    ]
    snapshot = snapshot_of(tmp_path, node(), job, *two)
    (gang,) = snapshot.gangs
    assert gang.annotations == {"a": "18", "b": "-1.5e3", "c": "2026-01-01T00:00:00Z"}
    assert gang.start_s == snapshot.newest_s == 1767225609


def test_what_is_not_read_is_listed(tmp_path):
    between = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]}
    snapshot = snapshot_of(
        tmp_path,
        node(),
        pod("a", affinity={"podAntiAffinity": between}, topologySpreadConstraints=[{"maxSkew": 1}],
            volumes=[{"persistentVolumeClaim": {"claimName": "c"}}, {"emptyDir": {}}]),
        pod("b", None, schedulingGates=[{"name": "g"}], status={"nominatedNodeName": "n1"}),
        custom("Secret", "v1", "s"),
    )  # fmt: skip
    assert snapshot.not_read == (
        "1 pod with required affinities between pods.",
        "1 pod with topology spread constraints.",
        "1 pod with persistent volumes, which can pin a pod to some nodes.",
        "1 pending pod with scheduling gates.",
        "1 object of kind Secret.",
    )
    assert snapshot.assumptions == (
        "1 pending pod with a nominated node: the room reserved there is taken as free.",
    )


def claim(name, *, held=0, wanted=2, device_class="gpu.nvidia.com", **request):
    exactly = {"deviceClassName": device_class, "count": wanted, **request}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    status = {"allocation": {"devices": {"results": [{"driver": "gpu.nvidia.com"}] * held}}}
    return custom("ResourceClaim", "resource.k8s.io/v1", name, spec) | (
        {"status": status} if held else {}
    )


def devices(generation, number):
    return custom("ResourceSlice", "resource.k8s.io/v1", f"s{generation}", {
        "driver": "gpu.nvidia.com", "nodeName": "n1", "devices": [{"name": "d"}] * number,
        "pool": {"name": "n1", "generation": generation},
    })  # fmt: skip


def test_devices_of_claims_count_by_driver(tmp_path):
    pods = [
        pod("a", gpus=0, owned_by=JOB, resourceClaims=[{"name": "x", "resourceClaimName": "c1"}]),
        pod("b", gpus=0, owned_by=JOB, resourceClaims=[{"name": "x", "resourceClaimName": "c1"}]),
        pod("c", None, gpus=0, resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}],
            status={"resourceClaimStatuses": [{"name": "x", "resourceClaimName": "c2"}]}),
    ]  # fmt: skip
    slices = devices(1, 8), devices(2, 4)
    claims = claim("c1", held=3), claim("c2")
    snapshot = snapshot_of(tmp_path, node(gpus=0), *slices, *claims, *pods)
    assert snapshot.node["n1"].capacity["gpu"] == 4
    assert [each.request.get("gpu", 0) for each in snapshot.gangs[0].pods] == [3, 0]
    assert snapshot.pending[0].shapes[0].request["gpu"] == 2


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([claim("c")], "uses the ResourceClaim c for devices: add kubectl get resourceclaims"),
        ([devices(1, 8)], "uses the ResourceClaim c for devices: add kubectl get resourceclaims"),
        ([devices(1, 8), claim("c", allocationMode="All")], "asks for no exact number"),
        ([devices(1, 8), claim("c", device_class="big")], "which is not the name of a driver"),
    ],
)
def test_devices_that_cannot_be_counted_are_refused(tmp_path, objects, reason):
    user = pod(gpus=0, resourceClaims=[{"name": "x", "resourceClaimName": "c"}])
    with pytest.raises(InputError, match=f"Pod team/p: .*{reason}"):
        snapshot_of(tmp_path, node(), user, *objects)


def kai_zip(path, raw_objects, name="snapshot.json"):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, json.dumps({"config": None, "rawObjects": raw_objects}))
    path.write_bytes(content.getvalue())
    return path


def without_kind(each):
    return {key: value for key, value in each.items() if key not in ("kind", "apiVersion")}


def test_a_snapshot_of_kai(tmp_path):
    group = custom("PodGroup", "", "pg", {
        "minMember": 1, "queue": "q", "topologyConstraint": {"requiredTopologyLevel": "rack"},
    })  # fmt: skip
    marks = {"annotations": {"pod-group-name": "pg"}, "owned_by": JOB}
    pods = [pod("a", **marks), pod("b", None, **marks), pod("c", None, **marks)]
    bound = custom("BindRequest", "", "b", {"podName": "b", "selectedNode": "n1"})
    failed = custom("BindRequest", "", "c", {"podName": "c", "selectedNode": "n1"})
    raw = {
        "nodes": [without_kind(node())],
        "pods": list(map(without_kind, pods)),
        "podGroups": [without_kind(group)],
        "bindRequests": [
            without_kind(bound),
            without_kind(failed) | {"status": {"phase": "Failed"}},
        ],
        "configMaps": [{"metadata": {"name": "x"}}],
        "queues": None,
    }
    snapshot = read_snapshot([kai_zip(tmp_path / "snapshot.zip", raw)])
    (running,), (pending,) = snapshot.gangs, snapshot.pending
    assert [each.name for each in running.pods] == ["a", "b"]
    assert (running.min_pods, running.queue) == (1, "q")
    assert (pending.shapes[0].names, pending.level) == (("c",), "rack")
    # Further objects may come from kubectl.
    budget = custom("PodDisruptionBudget", "policy/v1", "b", {"selector": {}})
    more = tmp_path / "budgets.json"
    more.write_text(json.dumps(budget))
    assert read_snapshot([tmp_path / "snapshot.zip", more]).budgets[0].gangs == ("team/pg",)


@pytest.mark.parametrize("files", [1, 2])
def test_lists_single_objects_and_several_documents(tmp_path, monkeypatch, files):
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [without_kind(node())]}
    texts = [
        json.dumps(nodes, indent=2),
        json.dumps(pod("a")) + "\n" + json.dumps(listed(pod("b"))),
    ]
    if files == 1:
        standard_input = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode("utf-16")))
        monkeypatch.setattr("sys.stdin", standard_input)
        snapshot = read_snapshot(["-"])
    else:
        (tmp_path / "nodes.json").write_text(texts[0])
        (tmp_path / "pods.json.gz").write_bytes(gzip.compress(texts[1].encode()))
        snapshot = read_snapshot([tmp_path / "nodes.json", tmp_path / "pods.json.gz"])
    assert [each.name for each in snapshot.nodes] == ["n1"]
    assert [each.id for each in snapshot.gangs] == ["team/a", "team/b"]


NODE, POD = json.dumps(node()), json.dumps(pod())
BOTH, LIST = NODE + POD, '{"apiVersion": "v1", "items": %s}'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (NODE[:-9], "is cut short: the JSON text ends in the middle"),
        (BOTH.replace("team", "team\udce9"), "is not UTF-8 text"),
        (NODE.replace(":", "="), r"is not JSON \(expected ':' at byte"),
        (POD + "]", r"is not JSON \(invalid character at byte"),
        (LIST % 3, "is not a Kubernetes list: items must be a list, not an integer"),
        (LIST % "[null]", r"items\[0\]: the object must be an object, not null"),
        (POD, "contains no nodes: add kubectl get nodes -o json"),
        (NODE, "contains no pods: add kubectl get pods -A -o json"),
        (NODE + NODE, "two nodes have the name n1"),
        (NODE + POD + POD, "Pod team/p occurs twice"),
        (json.dumps(node("n2")) + POD, "Pod team/p stands on node n1, which no file contains: add"),
        (NODE.replace('"110"', '"-1"') + POD, 'Node n1: pods: "-1" is negative'),
        (BOTH.replace('"cpu": "1"', '"cpu": "8K"'), 'Pod team/p: cpu: "8K" is not a quantity .*Ki'),
        (
            BOTH.replace('"1"', "[]"),
            r"Pod team/p: spec.containers\[0\].resources.requests.* must be",
        ),
        (
            BOTH.replace('"Running"', "7"),
            "Pod team/p: status.phase must be a string, not an integer",
        ),
        (NODE + POD.replace('"spec"', '"spec_"'), "Pod team/p: spec is missing"),
        (NODE.replace('"n1"', "1") + POD, "an object of kind Node: metadata.name must be a string"),
        (
            NODE + json.dumps(pod(status={"startTime": "soon"})),
            "Pod team/p: its start 'soon' is not",
        ),
        (NODE + json.dumps(pod(annotations={"gpu-fraction": "0.5"})), "Pod team/p shares a GPU"),
        ("apiVersion: v1\nkind: List\n", "looks like YAML: give kubectl the option -o json"),
        ("hello", "is not a snapshot that a reader knows"),
        (" \n", "the file is empty"),
    ],
)
def test_damaged_files_give_one_line(tmp_path, text, reason):
    path = tmp_path / "cluster.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(InputError, match=reason) as caught:
        read_snapshot([path])
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_damaged_archives_and_missing_files(tmp_path):
    path = kai_zip(tmp_path / "snapshot.zip", {}, name="other.json")
    with pytest.raises(InputError, match=r'holds "other.json", but no snapshot.json of KAI'):
        read_snapshot([path])
    whole = kai_zip(path, {}).read_bytes()
    path.write_bytes(whole[:-30])
    with pytest.raises(InputError, match="is a damaged or truncated zip archive"):
        read_snapshot([path])
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_snapshot([tmp_path / "gone.json"])
    with pytest.raises(UserError, match="no snapshot files are given"):
        read_snapshot([])


def test_pods_of_one_namespace_only_are_noted(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(BOTH)
    (note,) = read_snapshot([path]).assumptions
    assert note.startswith("1 pod in the only namespace team: taken to be all pods of the cluster")


def test_a_reader_can_be_named(tmp_path):
    path = tmp_path / "cluster.json"
    path.write_text(BOTH)
    assert read_snapshot([path], "kubernetes") == read_snapshot([path])
    with pytest.raises(UserError, match="snapshot reader .*kubernets"):
        read_snapshot([path], "kubernets")
