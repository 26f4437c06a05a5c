"""Nodes, pods, gangs, budgets and files of Kubernetes and KAI."""

import gzip
import io
import json
import zipfile

import pytest

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.instances.snapshots.reading import read_snapshot
from tests.instances.snapshots.objects import custom, listed, node, pod, shown, snapshot_of
from tests.tables import tables

CASES = tables(__file__) | tables(__file__, "kubernetes_gangs")
NODE, POD = json.dumps(node()), json.dumps(pod())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_objects_give_a_snapshot(tmp_path, case):
    given = {"entries": case["objects"], "owners": case.get("owners", {})}
    if "refused" in case:
        with pytest.raises(InputError, match=case["refused"]):
            snapshot_of(tmp_path, **given)
    else:
        wanted = {key: case[key] for key in case if key not in ("objects", "owners")}
        assert shown(snapshot_of(tmp_path, **given), wanted) == wanted


@pytest.mark.parametrize(
    ("version", "mark", "spec", "minimum"),
    [
        (system["version"], system["mark"], spec, minimum)
        for system in tables(__file__, "minima").values()
        for spec, minimum in system["minima"]
    ],
)
def test_the_minimum_of_a_pod_group(tmp_path, version, mark, spec, minimum):
    group = {"title": f"{version} PodGroup pg", "spec": spec}
    other = {"title": "example.com/v1 PodGroup pg", "spec": {"minMember": 1}}
    pods = {"pod": "p", "count": 4, "owner": "batch/v1 Job train", **mark}
    (gang,) = snapshot_of(tmp_path, [pods, group, other]).gangs
    assert (gang.id, gang.owner.name, gang.min_pods) == ("team/pg", "train", minimum)


@pytest.mark.parametrize(("spec", "selected"), tables(__file__, "selectors")["selected"])
def test_a_budget_selects_pods_of_its_namespace(tmp_path, spec, selected):
    budget = {"title": "policy/v1 PodDisruptionBudget b", "spec": spec}
    budget["status"] = {"disruptionsAllowed": 1}
    pods = [{"pod": name, "labels": {"app": name}} for name in "ab"]
    pods.append({"pod": "c", "labels": {"app": "a"}, "namespace": "other"})
    budgets = snapshot_of(tmp_path, [budget, *pods]).budgets
    gangs = tuple(f"team/{name}" for name in selected)
    assert [(each.gangs, each.most) for each in budgets] == [(gangs, 1)] * bool(gangs)


def test_nodes_in_several_files_are_taken_as_one_cluster(tmp_path):
    for name in ("n1", "n2"):
        (tmp_path / name).write_text(json.dumps(listed(node(name), pod(f"p-{name}", name))))
    snapshot = read_snapshot([tmp_path / "n1", tmp_path / "n2"])
    assert "2 nodes in 2 files: taken as one cluster." in snapshot.assumptions


def kai_zip(path, raw_objects, name="snapshot.json"):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, json.dumps({"config": None, "rawObjects": raw_objects}))
    path.write_bytes(content.getvalue())
    return path


def without_kind(each):
    return {key: value for key, value in each.items() if key not in ("kind", "apiVersion")}


def test_a_snapshot_of_kai(tmp_path):
    constraint = {"requiredTopologyLevel": "rack"}
    spec = {"minMember": 1, "queue": "q", "topologyConstraint": constraint}
    marks = {"annotations": {"pod-group-name": "pg"}, "owner": "batch/v1 Job j"}
    bound, failed = ({"podName": name, "selectedNode": "n1"} for name in "bc")
    raw = {
        "nodes": [node()],
        "pods": [pod("a", **marks), pod("b", "", **marks), pod("c", "", **marks)],
        "podGroups": [custom("v2alpha2 PodGroup pg", spec)],
        "bindRequests": [
            custom("v1alpha2 BindRequest b", bound),
            custom("v1alpha2 BindRequest c", failed, status={"phase": "Failed"}),
        ],
        "configMaps": [{"metadata": {"name": "x"}}],
    }
    raw = {name: [without_kind(each) for each in objects] for name, objects in raw.items()}
    path = kai_zip(tmp_path / "snapshot.zip", {**raw, "queues": None})
    running = {"pods": [{"name": "a"}, {"name": "b"}], "min_pods": 1, "queue": "q"}
    wanted = {"gangs": [running], "pending": [{"shapes": [{"names": ["c"]}], "level": "rack"}]}
    assert shown(read_snapshot([path]), wanted) == wanted
    # Further objects may come from kubectl.
    more = tmp_path / "budgets.json"
    more.write_text(json.dumps(custom("policy/v1 PodDisruptionBudget b", {"selector": {}})))
    assert read_snapshot([path, more]).budgets[0].gangs == ("team/pg",)


@pytest.mark.parametrize("files", [1, 2])
def test_lists_single_objects_and_several_documents(tmp_path, monkeypatch, files):
    nodes = {"apiVersion": "v1", "kind": "NodeList", "items": [without_kind(node())]}
    texts = [json.dumps(nodes, indent=2), json.dumps(pod("a")) + json.dumps(listed(pod("b")))]
    paths = [tmp_path / "nodes.json", tmp_path / "pods.json.gz"]
    if files == 1:
        standard_input = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode("utf-16")))
        monkeypatch.setattr("sys.stdin", standard_input)
        paths = ["-"]
    else:
        paths[0].write_text(texts[0])
        paths[1].write_bytes(gzip.compress(texts[1].encode()))
    wanted = {"nodes": [{"name": "n1"}], "gangs": [{"id": "team/a"}, {"id": "team/b"}]}
    assert shown(read_snapshot(paths), wanted) == wanted


DAMAGED = tables(__file__, "damaged_kubernetes")["damaged"]


@pytest.mark.parametrize(("text", "old", "new", "reason"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_give_one_line(tmp_path, text, old, new, reason):
    path = tmp_path / "cluster.json"
    text = text.replace("NODE", NODE).replace("POD", POD)
    path.write_text(text.replace(old, new) if old else text, encoding="latin-1")
    with pytest.raises(InputError, match=reason) as caught:
        read_snapshot([path])
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_damaged_archives_and_missing_files(tmp_path):
    path = kai_zip(tmp_path / "snapshot.zip", {}, name="other.json")
    with pytest.raises(InputError, match=r'holds "other.json", but no snapshot.json of KAI'):
        read_snapshot([path])
    path.write_bytes(kai_zip(path, {}).read_bytes()[:-30])
    with pytest.raises(InputError, match="is a damaged or truncated zip archive"):
        read_snapshot([path])
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_snapshot([tmp_path / "gone.json"])
    with pytest.raises(UserError, match="no snapshot files are given"):
        read_snapshot([])


def test_a_reader_can_be_named_and_pods_of_one_namespace_only_are_noted(write):
    path = write(NODE + POD, "cluster.json")
    snapshot = read_snapshot([path], "kubernetes")
    assert snapshot == read_snapshot([path])
    (note,) = snapshot.assumptions
    assert note.startswith("1 pod in the only namespace team: taken to be all pods of the cluster")
    with pytest.raises(UserError, match="snapshot reader .*kubernets"):
        read_snapshot([path], "kubernets")
