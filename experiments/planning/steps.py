"""The commands that carry out a plan, in order, and those that undo it; they are never run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from shlex import join
from typing import TYPE_CHECKING, NamedTuple

from lyra_opt.experiments.planning.questions import Fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.experiments.planning.planning import ClusterPlan, Disruption
    from lyra_opt.instances.snapshots.snapshot import RunningPod

RESERVED = "lyra-opt/reserved"
"""The key of the taint that keeps other pods off the nodes for a pending gang."""

RESERVATION = "lyra-opt"
"""The name of the Slurm reservation that keeps other jobs off the nodes for a pending job."""

TOLERATION = {"key": RESERVED, "operator": "Exists", "effect": "NoSchedule"}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan.

    Parameters
    ----------
    purpose
        What the step achieves, as an imperative sentence without a full stop.
    commands
        The commands of the shell; empty if an object must be edited instead.
    """

    purpose: str
    commands: tuple[str, ...] = ()


class Steps(NamedTuple):
    """The steps of a plan, and the steps that undo them."""

    do: tuple[Step, ...]
    undo: tuple[Step, ...]


SUSPENDED = ("spec", "suspend")
RUN_POLICY = ("spec", "runPolicy", "suspend")

SUSPEND_FIELDS = {
    "jobs.batch": SUSPENDED,
    "jobsets.jobset.x-k8s.io": SUSPENDED,
    "trainjobs.trainer.kubeflow.org": SUSPENDED,
    "rayjobs.ray.io": SUSPENDED,
    "rayclusters.ray.io": SUSPENDED,
    "pytorchjobs.kubeflow.org": RUN_POLICY,
    "tfjobs.kubeflow.org": RUN_POLICY,
    "mpijobs.kubeflow.org": RUN_POLICY,
    "xgboostjobs.kubeflow.org": RUN_POLICY,
    "paddlejobs.kubeflow.org": RUN_POLICY,
    "jaxjobs.kubeflow.org": RUN_POLICY,
}
"""The field that suspends an owner, by the name that ``kubectl`` takes for its kind."""

VOLCANO_JOBS = "jobs.batch.volcano.sh"


def steps_of(plan: ClusterPlan) -> Steps:
    """Return the steps of a plan; none if no plan was found or nothing must be done."""
    if not plan.exists or not plan.nodes:
        return Steps((), ())
    if plan.case.snapshot.system == "slurm":
        return _slurm_steps(plan)
    if isinstance(plan.case.question, Fit):
        return _fit_on_kubernetes(plan, plan.case.question)
    return _drain_on_kubernetes(plan)


def _kubectl(*words: str, namespace: str = "") -> str:
    where = ("--namespace", namespace) if namespace else ()
    return join(("kubectl", *words, *where))


def _drain_on_kubernetes(plan: ClusterPlan) -> Steps:
    force = any(each.gang.needs_force for each in plan.disruptions)
    options = ("--ignore-daemonsets", "--delete-emptydir-data", *(["--force"] if force else []))
    return Steps(
        (
            Step(
                "Close the nodes, so that nothing new starts on them",
                (_kubectl("cordon", *plan.nodes),),
            ),
            Step("Evict their pods", (_kubectl("drain", *plan.nodes, *options),)),
        ),
        (Step("Open the nodes again", (_kubectl("uncordon", *plan.nodes),)),),
    )


def _fit_on_kubernetes(plan: ClusterPlan, question: Fit) -> Steps:
    gang = question.gang
    value = gang.id.rpartition("/")[2]
    reserve = _kubectl("taint", "nodes", *plan.nodes, f"{RESERVED}={value}:NoSchedule")
    names = [name for shape in gang.shapes for name in shape.names] if gang.owner.name else []
    patch = json.dumps([{"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION}])
    tolerate = Step(
        "Let the pending pods tolerate this taint"
        + ("" if names else f": add the toleration {json.dumps(TOLERATION)} to their template"),
        tuple(
            _kubectl(
                *("patch", "pod", name, "--type=json", f"--patch={patch}"),
                namespace=gang.owner.namespace,
            )
            for name in names
        ),
    )
    stops = [_stop(each) for each in plan.disruptions]
    resumes = [command for _, undo in stops for command in undo]
    return Steps(
        (
            Step("Keep other pods off the nodes", (reserve,)),
            tolerate,
            *_if_any("Stop the victims", [command for do, _ in stops for command in do]),
        ),
        (
            Step(
                "Open the nodes to other pods again",
                (_kubectl("taint", "nodes", *plan.nodes, f"{RESERVED}:NoSchedule-"),),
            ),
            *_if_any("Let the stopped jobs go on when there is room", resumes),
        ),
    )


def _if_any(purpose: str, commands: Iterable[str]) -> Sequence[Step]:
    found = tuple(dict.fromkeys(commands))
    return [Step(purpose, found)] if found else []


def _stop(each: Disruption) -> tuple[list[str], list[str]]:
    """Return the commands that stop a gang or some of its pods, and those that undo this.

    The owner is suspended where its kind allows this, because a controller would at once create
    deleted pods again.
    """
    owner = each.gang.owner
    if each.is_whole and owner.workload:
        return _patched("workloads.kueue.x-k8s.io", owner.workload, owner.namespace, "active")
    if each.is_whole and owner.resource in SUSPEND_FIELDS:
        return _patched(
            owner.resource, owner.name, owner.namespace, *SUSPEND_FIELDS[owner.resource][1:]
        )
    if each.is_whole and owner.resource == VOLCANO_JOBS:
        where = ("--name", owner.name, "--namespace", owner.namespace)
        return [join(("vcctl", "job", verb, *where)) for verb in ("suspend",)], [
            join(("vcctl", "job", "resume", *where))
        ]
    return [_delete(each.lost, owner.namespace)], []


def _patched(resource: str, name: str, namespace: str, *path: str) -> tuple[list[str], list[str]]:
    """Return the commands that set a field of ``spec`` to stop an object, and to let it go on."""
    commands = []
    for stops in (True, False):
        value: object = stops is not (path[-1] == "active")
        for key in reversed(("spec", *path)):
            value = {key: value}
        patch = ("patch", resource, name, "--type=merge", f"--patch={json.dumps(value)}")
        commands.append([_kubectl(*patch, namespace=namespace)])
    return commands[0], commands[1]


def _delete(pods: Iterable[RunningPod], namespace: str) -> str:
    return _kubectl("delete", "pod", *(pod.name for pod in pods), namespace=namespace)


def _slurm_steps(plan: ClusterPlan) -> Steps:
    nodes, question = ",".join(plan.nodes), plan.case.question
    requeued = [each.gang.owner.name for each in plan.disruptions if each.gang.can_be_requeued]
    ended = [each.gang.owner.name for each in plan.disruptions if not each.gang.can_be_requeued]
    stops = [
        *_if_any(
            "Stop the jobs that can start again later",
            [join(("scontrol", "requeue", ",".join(requeued)))] if requeued else [],
        ),
        *_if_any(
            "End the jobs that cannot be requeued; they do not start again",
            [join(("scancel", *ended))] if ended else [],
        ),
    ]
    if not isinstance(question, Fit):
        close = ("scontrol", "update", f"NodeName={nodes}", "State=DRAIN", "Reason=lyra-opt")
        return Steps(
            (
                Step("Close the nodes; running jobs would go on to their end", (join(close),)),
                *stops,
            ),
            (
                Step(
                    "Open the nodes again",
                    (join(("scontrol", "update", f"NodeName={nodes}", "State=RESUME")),),
                ),
            ),
        )
    reserve = (
        *("scontrol", "create", "reservation", f"ReservationName={RESERVATION}"),
        *(f"Nodes={nodes}", "StartTime=now", "Duration=60", "Flags=IGNORE_JOBS"),
        f"Accounts={question.gang.queue}" if question.gang.queue != "default" else "Users=root",
    )
    name = question.gang.owner.name
    use = (
        Step(
            "Let the pending job use the reservation",
            (join(("scontrol", "update", f"JobId={name}", f"ReservationName={RESERVATION}")),),
        )
        if name
        else Step(f"Submit the job with sbatch --reservation={RESERVATION}")
    )
    return Steps(
        (
            Step("Keep other jobs off the nodes for an hour; name your users", (join(reserve),)),
            *stops,
            use,
        ),
        (
            Step(
                "Open the nodes to other jobs again",
                (join(("scontrol", "delete", f"ReservationName={RESERVATION}")),),
            ),
        ),
    )
