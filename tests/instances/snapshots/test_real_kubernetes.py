"""The snapshot of a real API server against what ``kubectl`` itself showed of it."""

import gzip
import json
import re
from pathlib import Path

import pytest

from lyra_opt.instances.snapshots.reading import read_snapshot

FOLDER = Path(__file__).parent / "kubernetes_1_36"


@pytest.fixture(scope="module")
def snapshot():
    return read_snapshot([FOLDER / "everything.json.gz"])


def table():
    """Yield namespace, name, status and node from ``kubectl get pods -A -o wide``."""
    text = gzip.decompress((FOLDER / "pods_wide.txt.gz").read_bytes()).decode()
    for line in text.splitlines()[1:]:
        namespace, name, _, status, *_, node, _, _ = line.split()
        yield namespace, name, status, node


def placed(snapshot):
    """Return the nodes of the running pods by namespace and name."""
    pods = [(gang.id.split("/")[0], pod) for gang in snapshot.gangs for pod in gang.pods]
    return {(namespace, pod.name): pod.node for namespace, pod in pods}


def test_each_running_pod_stands_where_kubectl_shows_it(snapshot):
    shown = {
        (namespace, name): node
        for namespace, name, status, node in table()
        if status not in ("Terminating", "Succeeded") and node != "<none>"
        and not name.startswith("device-plugin")
    }  # fmt: skip
    assert placed(snapshot) == shown


def test_pending_pods_are_those_without_a_node(snapshot):
    shown = {name for _, name, status, node in table() if status == "Pending" and node == "<none>"}
    read = {name for gang in snapshot.pending for shape in gang.shapes for name in shape.names}
    assert read == shown


def test_a_drain_evicts_the_pods_that_are_read(snapshot):
    drains = json.loads(gzip.decompress((FOLDER / "drains.json.gz").read_bytes()))
    assert len(drains) == 3
    for node, said in drains.items():
        evicted = set(re.findall(r"evicting pod (\S+)/(\S+) ", said))
        assert {pod for pod, place in placed(snapshot).items() if place == node} == evicted


def test_gangs_and_their_minima(snapshot):
    gangs = {
        gang.id: (gang.owner.resource, len(gang.pods), gang.min_pods) for gang in snapshot.gangs
    }
    assert gangs["team-b/sweep"] == ("jobs.batch", 5, 5)
    assert gangs["team-b/pg-elastic"] == ("pods", 4, 2)
    assert gangs["serving/chat-547f54888b-797tk"] == ("deployments.apps", 1, 1)
    urgent = next(gang for gang in snapshot.pending if gang.id == "team-a/urgent")
    assert (urgent.min_pods, urgent.priority) == (12, 1)
    assert urgent.grouped_by == "scheduling.k8s.io"
    assert [(len(shape.names), shape.request["gpu"]) for shape in urgent.shapes] == [(12, 8)]


def test_init_and_sidecar_containers_count(snapshot):
    chat = snapshot.gang["serving/chat-547f54888b-797tk"]
    # The init container asks for 8 CPUs; the container and its sidecar for 4.25 together.
    assert chat.pods[0].request == {
        "cpu": 8000, "memory": 24 * 2**30 + 128 * 2**20, "gpu": 1, "pods": 1,
    }  # fmt: skip


def test_nodes(snapshot):
    assert len(snapshot.nodes) == 20
    closed = {node.name: node.closed_because for node in snapshot.nodes if node.closed_because}
    assert list(closed.values()) == ["cordoned"]
    assert sum(bool(node.taints) and not node.closed_because for node in snapshot.nodes) == 1
    assert all(node.held == {"cpu": 50, "memory": 2**26, "pods": 1} for node in snapshot.nodes)
    assert "gpu" not in snapshot.node["cpu-16"].capacity


def test_budget_priorities_and_notes(snapshot):
    (budget,) = snapshot.budgets
    assert (budget.id, len(budget.gangs), budget.most) == ("serving/chat", 5, 1)
    assert snapshot.priorities["p2"] == 2
    note = "2 pods being deleted, with 10 GPUs: their room is taken as free."
    assert note in snapshot.assumptions
    assert snapshot.not_read == ()
