"""The commands of plans for Kubernetes: their words, and what they do to a real API server."""

import json
import os
import shlex
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from urllib.error import HTTPError

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.planning import asking
from lyra_opt.experiments.planning.asking import pending_gang
from lyra_opt.experiments.planning.planning import plan
from lyra_opt.experiments.planning.questions import Choices, Drain, Fit
from lyra_opt.experiments.planning.steps import ACTIVE, SUSPEND_FIELDS, steps_of
from lyra_opt.instances.preemption.recording import kubernetes as recording
from lyra_opt.instances.preemption.recording.cases import environment_with, until
from lyra_opt.instances.snapshots.kubernetes import KubernetesReader
from lyra_opt.instances.snapshots.kubernetes_files import CLASSES
from lyra_opt.instances.snapshots.owners import KINDS
from lyra_opt.instances.snapshots.reading import read_snapshot
from lyra_opt.instances.snapshots.snapshot import Owner
from tests.experiments.planning.clusters import cluster, gang, node, pending, planned
from tests.tables import tables


def owner(resource, name="old", **more):
    """Return an owner by the name that kubectl takes for its kind."""
    return Owner(kind="Kind", name=name, namespace="team", resource=resource, **more)


def steps_for(snapshot, question, **choices):
    """Return the steps of the best plan, which must exist."""
    found = plan(snapshot, question, Choices(**choices))
    assert found.exists
    return steps_of(found)


def fit(*gangs, new=None, **choices):
    """Return the steps that make room for a job on node a."""
    nodes = [node("a"), node("b", closed_because="cordoned")]
    return steps_for(cluster(nodes, gangs), Fit(gang=new or pending(1, 4, 10)), **choices)


def commands(steps):
    """Return all commands of some steps."""
    return [command for step in steps for command in step.commands]


def purposes(steps):
    """Return the purposes of some steps as one text."""
    return "\n".join(step.purpose for step in steps)


STEPS = tables(__file__, "steps")


def is_like(command, expected):
    """Return whether a command is the one expected, which may be given by its beginning."""
    begin = expected.removesuffix("...")
    return command == expected or (begin != expected and command.startswith(begin))


@pytest.mark.parametrize("name", STEPS)
def test_steps(name):
    """The commands that carry out the best plan, and those that undo it, in order."""
    case = STEPS[name]
    steps = steps_of(planned(case))
    for part in ("do", "undo"):
        found, expected = commands(getattr(steps, part)), case.get(part)
        assert expected is None or len(found) == len(expected), found
        assert all(map(is_like, found, expected or found)), found
    assert all(text in purposes((*steps.do, *steps.undo)) for text in case.get("says", ()))
    assert not any(text in str(steps) for text in case.get("silent", ()))


def test_described_pods_get_a_reservation_that_no_other_plan_has():
    snapshot = cluster([node("a"), node("b")])
    first = fit(new=asking.fit(snapshot, pods=1, request={"gpu": 4}).gang)
    assert commands(first.do)[0] == "kubectl taint nodes a lyra-opt/reserved=pending-a:NoSchedule"


@pytest.fixture
def words(tmp_path):
    """Return a function that runs a command and returns the words that kubectl was given."""
    list_kinds = 'if [ "$1" = api-resources ]; then cat kinds; exit 1; fi'
    (tmp_path / "kubectl").write_text(f'#!/bin/sh\n{list_kinds}\nprintf "%s\\n" "$@"\n')
    (tmp_path / "kubectl").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(command, kinds=()):
        (tmp_path / "kinds").write_text("\n".join(kinds))
        found = subprocess.run(
            ["sh", "-c", command], env=environment, check=True, capture_output=True, cwd=tmp_path
        )
        return found.stdout.decode().splitlines()

    return run


def test_every_name_stays_one_word_in_the_shell(words):
    odd = "it's $(touch x) `y`; *"
    jobs = [
        gang(odd, [odd], 2, owner=owner("jobs.batch", odd)),
        gang(f"{odd} two", [odd], 2, owner=owner("deployments.apps", odd)),
    ]
    new = pending(1, 4, 10)
    new = replace(new, shapes=(replace(new.shapes[0], names=(odd,)),))
    names = {odd, f"{odd}-0", f"{odd} two-0", f"--field-selector=spec.nodeName={odd}"}
    for question in (Drain(nodes=(odd,)), Fit(gang=new)):
        steps = steps_for(cluster([node(odd)], jobs), question)
        for command in commands((*steps.do, *steps.undo)):
            given = [word for word in words(command) if "touch" in word]
            assert given
            assert set(given) <= names


def test_the_command_of_the_reader_asks_for_all_kinds_that_it_reads(words):
    """It takes only kinds that the cluster has, even if kubectl cannot reach all API groups."""
    read = []
    for kind, group in CLASSES:
        plural = "priorityclasses" if kind == "PriorityClass" else f"{kind.lower()}s"
        read.append(KINDS.get((kind, group), (f"{plural}.{group}".rstrip("."),))[0])
    others = ["secrets", "pods.metrics.k8s.io", "cronjobs.batch", "controllerrevisions.apps"]
    for kinds in (read, ["nodes", "pods", "jobs.batch"]):
        asked = words(KubernetesReader.collect, [*kinds, *others])
        assert asked == ["get", ",".join(kinds), "--all-namespaces", "--output=json"]


CONTROLLERS = (
    "kube-controller-manager --kubeconfig={folder}/client --leader-elect=false --secure-port=0 "
    "--controllers=job-controller,deployment-controller,replicaset-controller,"
    "statefulset-controller,daemonset-controller,disruption-controller,garbage-collector-controller"
)
APPS, BATCH, POLICY = "/apis/apps/v1", "/apis/batch/v1", "/apis/policy/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HAS = {"nvidia.com/gpu": "8", "cpu": "64", "memory": "512Gi", "pods": "110"}
READY = [{"type": "Ready", "status": "True"}]


class Server(recording.ControlPlane):
    """A control plane with controllers and four nodes of 8 GPUs, whose pods are soon ready."""

    def __init__(self, folder):
        programs = f"{recording.PROGRAMS} kube-controller-manager kubectl"
        try:
            self.environment = environment_with(recording.FOLDERS, programs)
        except UserError as error:
            pytest.skip(str(error))
        super().__init__(folder, has_gangs=True)
        self.environment["KUBECONFIG"] = str(folder / "client")
        self.folder, self.ended = folder, threading.Event()
        self.kubelet = threading.Thread(target=self.run_pods)

    def __enter__(self):
        super().__enter__()
        command = CONTROLLERS.format(folder=self.folder).split()
        with (self.folder / "controllers.log").open("wb") as log:
            controllers = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log)
        self._processes.append(controllers)
        for name in ("n0", "n1", "n2", "n3"):
            status = {"capacity": HAS, "allocatable": HAS, "conditions": READY}
            self.create(recording.NODES, name, status=status)
            self.shell(f"kubectl label node {name} place={name}")
        self.kubelet.start()
        return self

    def __exit__(self, *error):
        self.ended.set()
        self.kubelet.join()
        super().__exit__(*error)

    def run_pods(self):
        while not self.ended.wait(0.2):
            for pod in self.ask("GET", recording.PODS)["items"]:
                if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Pending":
                    body = {"status": {"phase": "Running", "conditions": READY}}
                    path = f"{recording.PODS}/{pod['metadata']['name']}/status"
                    with suppress(HTTPError):  # it may be gone
                        self.ask("PATCH", path, body, "strategic-merge-patch+json")

    def shell(self, command):
        words = ["sh", "-c", command]
        return subprocess.run(
            words, env=self.environment, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    def run_all(self, steps):
        for command in commands(steps):
            self.shell(command)

    def snapshot(self):
        """Return the snapshot, collected with the command that the reader names."""
        (self.folder / "cluster.json").write_text(self.shell(KubernetesReader.collect))
        return read_snapshot([self.folder / "cluster.json"])

    def add(self, api, kind, name, pod=None, **spec):
        """Create an object in the namespace default, with a template of pods or without."""
        labels = {"app": name}
        if pod is not None:
            spec["template"] = {"metadata": {"labels": labels}, "spec": pod}
        if api is APPS:
            spec["selector"] = {"matchLabels": labels}
        self.create(f"{api}/namespaces/default/{kind}", name, spec=spec)

    def add_job(self, name, pods, pod):
        size = {"completions": pods, "parallelism": pods, "completionMode": "Indexed"}
        self.add(BATCH, "jobs", name, {**pod, "restartPolicy": "Never"}, **size)

    def has_placed(self, number):
        """Return whether all pods have nodes, of which there must be a certain number."""
        return until(lambda: len(self.pods()) == number and all(self.pods().values()), 60)

    def closed(self):
        """Return the names of the nodes with a taint or a cordon."""
        nodes = self.ask("GET", recording.NODES)["items"]
        closing = {"taints", "unschedulable"}
        return [each["metadata"]["name"] for each in nodes if closing & each["spec"].keys()]


def pod_of(gpus, place="", **spec):
    """Return the specification of a pod that leaves at once."""
    needs = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    where = {"nodeSelector": {"place": place}} if place else {}
    containers = [{"name": "c", "image": "none", "resources": needs}]
    return {"containers": containers, "terminationGracePeriodSeconds": 0, **where, **spec}


@pytest.mark.slow
def test_a_real_drain_leaves_only_pods_of_daemon_sets(tmp_path):
    with Server(tmp_path) as server:
        server.add(APPS, "daemonsets", "plugin", pod_of(0))
        parallel = {"replicas": 2, "podManagementPolicy": "Parallel"}
        server.add(APPS, "statefulsets", "cache", pod_of(1), **parallel)
        server.add(APPS, "deployments", "web", pod_of(1), replicas=3)
        selector = {"matchLabels": {"app": "web"}}
        server.add(POLICY, "poddisruptionbudgets", "web", minAvailable=2, selector=selector)
        server.add_job("one", 2, pod_of(3))
        server.add_job("two", 2, pod_of(3))
        policy = {"gang": {"minCount": 2}}
        server.create(recording.GROUPS, "gang", spec={"schedulingPolicy": policy})
        member = pod_of(1, schedulingGroup={"podGroupName": "gang"})
        for name, pod in (("gang-0", member), ("gang-1", member), ("bare", pod_of(1))):
            server.create(recording.PODS, name, spec=pod)
        assert server.has_placed(16)
        healthy = "kubectl get pdb web -o jsonpath={.status.currentHealthy}"
        assert until(lambda: server.shell(healthy) == "3", 60)
        found = plan(server.snapshot(), Drain(count=2), Choices(is_forced=True))
        assert found.disruptions
        steps = steps_of(found)
        server.run_all(steps.do)
        left = [name for name, place in server.pods().items() if place in found.nodes]
        assert [name.startswith("plugin-") for name in left] == [True, True]
        assert tuple(server.closed()) == found.nodes
        server.run_all(steps.undo)
        assert server.closed() == []


@pytest.mark.slow
def test_real_pending_pods_run_on_the_planned_nodes(tmp_path):
    """The Deployment creates its deleted pod again, which must not take the freed GPUs."""
    with Server(tmp_path) as server:
        high = {"priorityClassName": "high"}
        server.create(recording.CLASSES, "high", value=9, preemptionPolicy="Never")
        server.add(APPS, "deployments", "web", pod_of(8, "n0"), replicas=1)
        server.add_job("b", 2, pod_of(4, "n1"))
        server.add_job("c", 1, pod_of(4, "n2"))
        server.add_job("d", 1, pod_of(4, "n2"))
        server.add_job("e", 1, pod_of(8, "n3", **high))
        assert server.has_placed(6)
        before = server.pods()
        server.add_job("new", 2, pod_of(8, **high))
        assert until(lambda: len(server.pods()) == 8, 60)
        snapshot = server.snapshot()
        found = plan(snapshot, Fit(gang=pending_gang(snapshot, "new")))
        assert found.nodes == ("n0", "n1")
        steps = steps_of(found)
        server.run_all(steps.do)
        assert server.closed() == ["n0", "n1"]
        assert until(lambda: list(server.pods().values()).count(None) == 1, 60)
        pods = server.pods()
        assert {name.split("-")[0] for name in before.keys() - pods.keys()} == {"web", "b"}
        assert [pods[name] for name in pods if name.startswith("web")] == [None]
        assert sorted(pods[name] for name in pods if name.startswith("new")) == ["n0", "n1"]
        stopped = "kubectl get jobs -o jsonpath='{.items[?(@.spec.suspend==true)].metadata.name}'"
        assert server.shell(stopped) == "b"
        server.run_all(steps.undo)
        assert (server.shell(stopped), server.closed()) == ("", [])


@pytest.mark.slow
def test_a_real_server_accepts_the_patches_for_all_kinds(tmp_path):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    with Server(tmp_path) as server:
        jobs = []
        for number, resource in enumerate(SUSPEND_FIELDS):
            of = replace(owner(resource), namespace="default")
            jobs.append(gang(f"j{number}", [f"n{number}"], 4, owner=of))
            if resource == "jobs.batch":
                server.add_job("old", 1, pod_of(1))
                continue
            plural, _, group = resource.partition(".")
            names = {"plural": plural, "kind": plural.title(), "singular": plural[:-1]}
            spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
            server.create(CRDS, resource, spec=spec)
            server.shell(f"kubectl wait crd {resource} --for=condition=Established")
            each = {"apiVersion": f"{group}/v1", "kind": names["kind"]}
            each |= {"metadata": {"name": "old"}, "spec": {}}
            server.shell(f"echo {shlex.quote(json.dumps(each))} | kubectl create -f -")
        nodes = [node(f"n{number}") for number in range(len(jobs))]
        steps = steps_for(cluster(nodes, jobs), Fit(gang=pending(len(jobs), 4, 10)))
        for listed, is_stopped in ((steps.do[1:2], True), (steps.undo[1:], False)):
            assert len(commands(listed)) == len(SUSPEND_FIELDS)
            server.run_all(listed)
            for resource, field in SUSPEND_FIELDS.items():
                path = ".".join(field)
                value = server.shell(f"kubectl get {resource} old -o jsonpath={{.{path}}}")
                assert value == str(is_stopped is (field != ACTIVE)).lower()
