"""The commands of plans for Kubernetes: their words, and what they do to a real API server."""

import json
import os
import shlex
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.planning.asking import pending_gang
from lyra_opt.experiments.planning.planning import plan
from lyra_opt.experiments.planning.questions import Choices, Consolidate, Drain, Fit
from lyra_opt.experiments.planning.steps import SUSPEND_FIELDS, steps_of
from lyra_opt.instances.preemption.recording import kubernetes as recording
from lyra_opt.instances.preemption.recording.cases import environment_with, until
from lyra_opt.instances.snapshots.kubernetes import KubernetesReader
from lyra_opt.instances.snapshots.kubernetes_files import CLASSES
from lyra_opt.instances.snapshots.owners import KINDS
from lyra_opt.instances.snapshots.placement import Placement, Toleration
from lyra_opt.instances.snapshots.reading import read_snapshot
from lyra_opt.instances.snapshots.snapshot import DisruptionBudget, Owner
from tests.experiments.planning.clusters import cluster, gang, node, pending

TAINT = "lyra-opt/reserved=new:NoSchedule"
TOLERATION = '{"key": "lyra-opt/reserved", "value": "new", "effect": "NoSchedule"}'


def owner(resource, name="old", **more):
    """Return an owner by the name that kubectl takes for its kind."""
    return Owner(
        kind=resource.split(".")[0], name=name, namespace="team", resource=resource, **more
    )


def victim(name="old", places=("a",), gpus=4, **fields):
    """Return a running gang, which by default fills node a."""
    return gang(name, places, gpus, **fields)


def steps_for(snapshot, question, **choices):
    """Return the steps of the best plan, which must exist."""
    found = plan(snapshot, question, Choices(**choices))
    assert found.exists
    return steps_of(found)


def fitting(*gangs, new=None, **choices):
    """Return the steps that make room on node a."""
    new = new or pending(1, 4, 10)
    return steps_for(cluster([node("a")], gangs), Fit(gang=new), **choices)


def commands(steps):
    """Return all commands of some steps."""
    return [command for step in steps for command in step.commands]


def purposes(steps):
    """Return the purposes of some steps as one text."""
    return "\n".join(step.purpose for step in steps)


def patched(name, value):
    return f"kubectl patch {name} --type=merge '--patch={json.dumps(value)}' --namespace team"


def suspended(name, *path):
    """Return the commands that set a field to true, and to false."""
    values = []
    for value in (True, False):
        for key in reversed(("spec", *path)):
            value = {key: value}
        values.append(patched(name, value))
    return values


@pytest.mark.parametrize(
    ("of", "do", "undo"),
    [
        (owner("jobs.batch"), *suspended("jobs.batch old", "suspend")),
        (
            owner("pytorchjobs.kubeflow.org"),
            *suspended("pytorchjobs.kubeflow.org old", "runPolicy", "suspend"),
        ),
        (
            owner("jobs.batch", workload="job-old"),
            *reversed(suspended("workloads.kueue.x-k8s.io job-old", "active")),
        ),
        (
            owner("jobs.batch.volcano.sh"),
            "vcctl job suspend --name old --namespace team",
            "vcctl job resume --name old --namespace team",
        ),
    ],
)
def test_owners_of_whole_gangs_are_suspended(of, do, undo):
    """The pending pods tolerate the taint last, so that the scheduler preempts nobody else."""
    steps = fitting(victim(owner=of))
    patch = json.dumps([{"op": "add", "path": "/spec/tolerations", "value": ["T"]}])
    patch = patch.replace('"T"', TOLERATION)
    assert commands(steps.do) == [
        f"kubectl taint nodes a {TAINT}",
        do,
        "kubectl wait pod old-0 --for=delete --timeout=10m --namespace team",
        f"kubectl patch pod new-0 --type=json '--patch={patch}' --namespace team",
        "kubectl wait pod new-0 --for=condition=PodScheduled --timeout=10m --namespace team",
    ]
    assert commands(steps.undo) == ["kubectl taint nodes a lyra-opt/reserved:NoSchedule-", undo]


ANYTHING = Placement(tolerations=(Toleration(operator="Exists"),))
BARE = {"protected_because": "bare", "needs_force": True, "can_be_requeued": False}


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"owner": owner("deployments.apps", "web")}, "Controllers create them again"),
        ({"owner": owner("statefulsets.apps", "web")}, "Controllers create them again"),
        ({"owner": owner("leaderworkersets.x-k8s.io", "lws")}, "Controllers create them again"),
        ({"owner": owner("pods", "group"), **BARE}, "Nothing creates the pods of team/old again"),
    ],
)
def test_pods_whose_owner_cannot_be_suspended_are_deleted(fields, warning):
    steps = fitting(victim(places="aa", gpus=2, **fields), is_forced=True)
    assert commands(steps.do)[1] == "kubectl delete pod old-0 old-1 --namespace team"
    assert warning in purposes(steps.do)
    assert len(commands(steps.undo)) == 1


def test_an_owner_is_not_suspended_if_pods_of_it_stay():
    elastic = victim(places="ab", min_pods=1)
    shared = [
        victim("one", owner=owner("jobs.batch")),
        victim("two", "b", owner=owner("jobs.batch")),
    ]
    for gangs, name in (([elastic], "old-0"), (shared, "one-0")):
        nodes = [node("a"), node("b", taints=())]
        kept = [
            replace(each, protected_because="kept") if each.id == "team/two" else each
            for each in gangs
        ]
        steps = steps_for(cluster(nodes, kept), Fit(gang=pending(1, 4, 10)))
        deleted = commands(steps.do)[1]
        assert deleted.startswith("kubectl delete pod ")
        assert len(shlex.split(deleted)) == len(
            ["kubectl", "delete", "pod", name, "--namespace", "team"]
        )


def test_pods_that_tolerate_everything_may_come_back():
    each = victim(owner=owner("deployments.apps"))
    pods = tuple(replace(pod, placement=ANYTHING) for pod in each.pods)
    assert "Pods of team/old tolerate the taint" in purposes(fitting(replace(each, pods=pods)).do)


def test_pending_pods_get_one_toleration_more():
    new = pending(2, 2, 10)
    (shape,) = new.shapes
    some = replace(new, id="team/new (2)", shapes=(replace(shape, placement=ANYTHING),))
    steps = fitting(victim(), new=some)
    patch = shlex.split(commands(steps.do)[3])
    assert patch[:5] == ["kubectl", "patch", "pod", "new-0", "new-1"]
    (operation,) = json.loads(patch[6].removeprefix("--patch="))
    assert operation["path"] == "/spec/tolerations/-"
    assert operation["value"]["value"] == "new--2"
    assert "Pods that Job new creates later do not tolerate it" in purposes(steps.do)


@pytest.mark.parametrize(
    ("fields", "purpose"),
    [
        ({"has_pods": False}, f"Add the toleration {TOLERATION} to the pod templates of Job new"),
        (
            {"owner": Owner(kind="Pod", name="")},
            f"Submit the pods with the toleration {TOLERATION}",
        ),
    ],
)
def test_pods_that_do_not_exist_are_not_patched(fields, purpose):
    steps = fitting(victim(), new=replace(pending(1, 4, 10), **fields))
    assert steps.do[-1].purpose == purpose
    assert not any("new-0" in command for command in commands(steps.do))


def test_a_drain_says_what_it_waits_for_and_what_is_idle():
    jobs = [
        victim("wide", "ab", 2),
        victim("web", "aa", 1, owner=owner("deployments.apps"), min_pods=1),
        victim("bare", "c", **BARE),
    ]
    nodes = [node("a"), node("b"), node("c", closed_because="cordoned")]
    budget = DisruptionBudget(id="team/web", gangs=("team/web",), most=1)
    snapshot = cluster(nodes, jobs, budgets=(budget,))
    steps = steps_for(snapshot, Drain(nodes=("a",)))
    assert commands(steps.do)[:2] == [
        "kubectl cordon a",
        "kubectl drain a --ignore-daemonsets --delete-emptydir-data",
    ]
    assert "The budget team/web allows 1 of 2 evictions now" in purposes(steps.do)
    assert "keep 2 GPUs idle until all pods of team/wide run again" in purposes(steps.do)
    steps = steps_for(snapshot, Drain(nodes=("b", "c")), is_forced=True)
    assert commands(steps.do)[1].startswith("kubectl drain b c ")
    assert commands(steps.do)[1].endswith(" --force")
    assert "Nothing creates the pods of team/bare again" in purposes(steps.do)
    assert "budget" not in purposes(steps.do)
    assert commands(steps.undo) == ["kubectl uncordon b"]  # c was closed before


def test_nodes_of_moved_pods_are_chosen_by_the_scheduler():
    steps = steps_for(
        cluster([node("a"), node("b")], [victim(gpus=1), victim("two", "b", 1)]), Consolidate()
    )
    assert "The scheduler chooses their new nodes" in purposes(steps.do)


@pytest.fixture
def record(tmp_path):
    """Return a function that runs a command and returns the words that kubectl was given."""
    program = tmp_path / "kubectl"
    program.write_text(
        '#!/bin/sh\nif [ "$1" = api-resources ]; then cat "$LISTED"; exit 1; fi\nprintf "%s\\n" "$@"\n'
    )
    program.chmod(0o755)

    def run(command, listed=()):
        (tmp_path / "listed").write_text("\n".join(listed))
        path = f"{tmp_path}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "LISTED": str(tmp_path / "listed")}
        return subprocess.run(
            ["sh", "-c", command], env=environment, check=True, capture_output=True, text=True
        ).stdout.splitlines()

    return run


def test_every_name_stays_one_word_in_the_shell(record):
    odd = "it's $(touch x) `y`; *"
    jobs = [
        victim(f"{odd} one", [odd], 2, owner=owner("jobs.batch", odd)),
        victim(f"{odd} two", [odd], 2, owner=owner("deployments.apps", odd)),
    ]
    new = pending(1, 4, 10)
    new = replace(new, shapes=(replace(new.shapes[0], names=(odd,)),))
    for question in (Drain(nodes=(odd,)), Fit(gang=new)):
        steps = steps_for(cluster([node(odd), node("b", 2)], jobs), question)
        for command in commands((*steps.do, *steps.undo)):
            words = record(command)
            assert any(
                word.removeprefix("--field-selector=spec.nodeName=").startswith(odd)
                for word in words
            )
            assert sum("touch" in word for word in words) == command.count("touch")


def test_the_command_of_the_reader_asks_for_all_kinds_that_it_reads(record):
    """It takes only kinds that the cluster has, even if kubectl cannot reach all API groups."""
    plurals = {"PriorityClass": "priorityclasses"}
    read = [
        KINDS[kind, group][0]
        if (kind, group) in KINDS
        else f"{plurals.get(kind, f'{kind.lower()}s')}.{group}".rstrip(".")
        for kind, group in CLASSES
    ]
    others = ["secrets", "pods.metrics.k8s.io", "cronjobs.batch", "controllerrevisions.apps"]
    for listed in (read, ["nodes", "pods", "jobs.batch"]):
        words = record(KubernetesReader.collect, [*listed, *others])
        assert words == ["get", ",".join(listed), "--all-namespaces", "--output=json"]
