"""The commands that carry out a plan, in order, and those that undo it; they are never run."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from shlex import join
from typing import NamedTuple

from lyra_opt.core.texts import show_list
from lyra_opt.experiments.planning.planning import ClusterPlan, Disruption
from lyra_opt.experiments.planning.questions import Fit
from lyra_opt.instances.snapshots.owners import OWNER_KINDS
from lyra_opt.instances.snapshots.placement import Taint
from lyra_opt.instances.snapshots.snapshot import RESERVED, Owner, PendingGang

SLURM_NAME = "lyra-opt"
"""The reason of closed nodes in Slurm, and how the name of each reservation begins."""

STAYS_CLOSED = ("drained", "down", "failing")
"""Why a node of Slurm was closed before, so that a plan does not open it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan.

    Parameters
    ----------
    purpose
        What the step achieves, as an imperative sentence, and what to expect; without the last
        full stop.
    commands
        The commands of the shell; empty if an object must be edited instead.
    """

    purpose: str
    commands: tuple[str, ...] = ()


class Steps(NamedTuple):
    """The steps of a plan, and the steps that undo them."""

    do: tuple[Step, ...]
    undo: tuple[Step, ...]


ACTIVE = ("spec", "active")
KUEUE_WORKLOADS = "workloads.kueue.x-k8s.io"

SUSPEND_FIELDS = {
    **{name: tuple(each.suspend.split(".")) for name, each in OWNER_KINDS.items() if each.suspend},
    KUEUE_WORKLOADS: ACTIVE,
}
"""The field that suspends an object, by the name that ``kubectl`` takes for its kind."""

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
    snapshot, nodes = plan.case.snapshot, plan.nodes
    force = any(each.gang.needs_force for each in plan.disruptions)
    options = ("--ignore-daemonsets", "--delete-emptydir-data", *(["--force"] if force else []))
    evict = _sentences(
        "Evict their pods, which lose the data in emptyDir volumes",
        "The scheduler chooses their new nodes",
        *_waits_for_budgets(plan),
        _idle_parts(plan),
        _lost_for_good(plan.disruptions),
    )
    close = _kubectl("cordon", *nodes)
    opened = [name for name in nodes if snapshot.node[name].closed_because != "cordoned"]
    return Steps(
        (
            Step("Close the nodes, so that nothing new starts on them", (close,)),
            Step(evict, (_kubectl("drain", *nodes, *options),)),
            Step("See that only pods of DaemonSets are left", (_list_pods(nodes),)),
        ),
        (Step("Open the nodes again", (_kubectl("uncordon", *opened),)),) if opened else (),
    )


def _sentences(*given: str) -> str:
    return ". ".join(filter(None, given))


def _exceeded_budgets(plan: ClusterPlan) -> list[tuple[str, int, int]]:
    """Return the budgets that do not allow all evictions: id, allowed and wanted evictions."""
    is_drain = not isinstance(plan.case.question, Fit)
    found = []
    for budget in plan.case.snapshot.budgets:
        leaving = [
            pod
            for each in plan.disruptions
            if each.gang.id in budget.gangs and not each.is_drained
            for pod in (each.gang.pods if is_drain else each.lost)
            if not is_drain or pod.node in plan.nodes
        ]
        if len(leaving) > budget.most:
            found.append((budget.id, budget.most, len(leaving)))
    return found


def _waits_for_budgets(plan: ClusterPlan) -> list[str]:
    """Return sentences on the budgets for which a drain waits, perhaps for ever."""
    return [
        f"The budget {name} allows {most} of {wanted} evictions now, and kubectl drain waits until "
        "it allows the others" + ("" if most else "; scale up or change it if it never does")
        for name, most, wanted in _exceeded_budgets(plan)
    ]


def _idle_parts(plan: ClusterPlan) -> str:
    """Return a sentence on lost gangs that keep pods on other nodes; empty without any."""
    names = [
        each.gang.id
        for each in plan.disruptions
        if each.is_whole and any(pod.node not in plan.nodes for pod in each.lost)
    ]
    text = f"Pods of {show_list(names)} on other nodes keep their GPUs idle until the others run"
    return text if names else ""


def _lost_for_good(disruptions: Iterable[Disruption]) -> str:
    """Return a sentence on pods that nobody creates again; empty without any."""
    names = [each.gang.id for each in disruptions if not each.gang.can_be_requeued]
    return f"Nothing creates the pods of {show_list(names)} again" if names else ""


def _list_pods(nodes: Iterable[str]) -> str:
    listing = 'kubectl get pods --all-namespaces --field-selector="spec.nodeName=$node"'
    return f"for node in {join(nodes)}; do {listing}; done"


def _fit_on_kubernetes(plan: ClusterPlan, question: Fit) -> Steps:
    """Return the steps that reserve the nodes, stop the victims and let the pending pods in.

    The pending pods tolerate the taint only when the victims are gone. Otherwise the scheduler
    would try to place them at once, and preempt pods of its own choice. Owners are suspended before
    a drain evicts their pods, because their controllers would create the pods again.
    """
    whose = _reserved_for(question.gang, plan.nodes).replace("/", ".")
    value = re.sub(r"[^A-Za-z0-9_.-]", "-", whose)[-63:].strip("_.-")
    taint = Taint(key=RESERVED, value=value)
    reserve = _kubectl("taint", "nodes", *plan.nodes, f"{RESERVED}={value}:{taint.effect}")
    release = _kubectl("taint", "nodes", *plan.nodes, f"{RESERVED}:{taint.effect}-")
    suspensions, stops, resumes = _stops(plan, taint)
    drain = _drain_on_kubernetes(plan.before) if plan.before else Steps((), ())
    close, evict = drain.do[:1], drain.do[1:]
    return Steps(
        (
            Step("Keep other pods off the nodes", (reserve,)),
            *close,
            *suspensions,
            *evict,
            *stops,
            _admission(question.gang, taint),
            Step("See which pods are on the nodes", (_list_pods(plan.nodes),)),
        ),
        (
            Step("Open the nodes to other pods again", (release,)),
            *drain.undo,
            *_if_any("Let the stopped jobs go on when there is room", resumes),
        ),
    )


def _reserved_for(gang: PendingGang, nodes: Sequence[str]) -> str:
    """Return the name of a reservation, which no other plan that is under way has.

    Described pods have no name. The first node names them, as it takes part in one plan at a time.
    """
    return gang.id if gang.owner.name else f"{gang.id}-{nodes[0]}"


def _if_any(purpose: str, commands: Iterable[str]) -> Sequence[Step]:
    found = tuple(dict.fromkeys(commands))
    return [Step(purpose, found)] if found else []


def _stops(plan: ClusterPlan, taint: Taint) -> tuple[Sequence[Step], Sequence[Step], Sequence[str]]:
    """Return the step that suspends victims, those that remove pods, and the commands to resume.

    The owner of a whole gang is suspended where its kind allows this, because a controller would at
    once create deleted pods again. It is not suspended if it also owns a gang that stays.
    """
    suspended = suspended_gangs(plan)
    suspends, resumes, deleting = [], [], []
    leaving: dict[str, list[str]] = defaultdict(list)
    deleted: dict[str, list[str]] = defaultdict(list)
    drained = plan.before.nodes if plan.before else ()
    for each in _stopped(plan):
        owner = each.gang.owner
        commands = _suspension(owner) if each.gang.id in suspended else None
        if commands is not None:
            suspends.append(commands[0])
            resumes.append(commands[1])
            leaving[owner.namespace] += [pod.name for pod in each.lost if pod.node in plan.nodes]
        else:
            deleting.append(each)
            deleted[owner.namespace] += [pod.name for pod in each.lost if pod.node not in drained]
    waits = [
        _kubectl("wait", "pod", *pods, "--for=delete", "--timeout=10m", namespace=each)
        for each, pods in leaving.items()
    ]
    ignored = [
        f"This ignores the budget {name}, which allows {most} of {wanted} evictions now"
        for name, most, wanted in _exceeded_budgets(plan)
    ]
    deletes = [_kubectl("delete", "pod", *pods, namespace=each) for each, pods in deleted.items()]
    removals = [
        *_if_any("Wait until the pods of suspended victims are gone", waits),
        *_if_any(_sentences(_deletion(deleting, taint), *ignored), deletes),
    ]
    return _if_any("Suspend the victims", suspends), removals, resumes


def _stopped(plan: ClusterPlan) -> list[Disruption]:
    """Return the victims of a fit, with the gangs that a drain before it leaves in its way."""
    return [
        each
        for each in plan.disruptions
        if not each.is_drained
        or (each.is_whole and any(pod.node in plan.nodes for pod in each.lost))
    ]


def suspended_gangs(plan: ClusterPlan) -> frozenset[str]:
    """Return the ids of the gangs that the steps suspend, so that they wait for their users."""
    if plan.case.snapshot.system == "slurm" or not isinstance(plan.case.question, Fit):
        return frozenset()
    stopped = [each for each in _stopped(plan) if each.is_whole]
    lost = {each.gang.id for each in stopped}
    kept = {gang.owner for gang in plan.case.snapshot.gangs if gang.id not in lost}
    return frozenset(
        each.gang.id
        for each in stopped
        if each.gang.owner not in kept and _suspension(each.gang.owner)
    )


def _deletion(deleted: Sequence[Disruption], taint: Taint) -> str:
    """Return the purpose of the step that deletes pods, and says which pods return."""
    remade = [each for each in deleted if each.gang.can_be_requeued]
    returning = [
        each.gang.id
        for each in remade
        if any(rule.tolerates(taint) for pod in each.lost for rule in pod.placement.tolerations)
    ]
    return _sentences(
        "Delete pods whose owner is not suspended",
        "Controllers create them again, and the taint keeps them off the nodes" if remade else "",
        f"Pods of {show_list(returning)} tolerate the taint and may come back" if returning else "",
        _lost_for_good(deleted),
    )


def _suspension(owner: Owner) -> tuple[str, str] | None:
    """Return the commands that suspend and resume an owner; None if its kind does not allow it."""
    resource, name, namespace = owner.resource, owner.name, owner.namespace
    if owner.workload:
        resource, name = KUEUE_WORKLOADS, owner.workload
    if resource == VOLCANO_JOBS:
        where = ("--name", name, "--namespace", namespace)
        return join(("vcctl", "job", "suspend", *where)), join(("vcctl", "job", "resume", *where))
    if resource not in SUSPEND_FIELDS:
        return None
    commands = []
    for stops in (True, False):
        value: object = stops is (SUSPEND_FIELDS[resource] != ACTIVE)
        for key in reversed(SUSPEND_FIELDS[resource]):
            value = {key: value}
        patch = ("patch", resource, name, "--type=merge", f"--patch={json.dumps(value)}")
        commands.append(_kubectl(*patch, namespace=namespace))
    return commands[0], commands[1]


def _admission(gang: PendingGang, taint: Taint) -> Step:
    """Return the step that lets the pending pods run on the reserved nodes."""
    toleration = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    if not gang.owner.name:
        return Step(f"Submit the pods with the toleration {json.dumps(toleration)}")
    owner = f"{gang.owner.kind} {gang.owner.name}"
    if not gang.has_pods:
        return Step(f"Add the toleration {json.dumps(toleration)} to the pod templates of {owner}")
    patches = []
    for shape in gang.shapes:
        operation: dict[str, object] = {"op": "add", "path": "/spec/tolerations"}
        if shape.placement.tolerations:
            operation |= {"path": "/spec/tolerations/-", "value": toleration}
        else:
            operation["value"] = [toleration]
        patch = ("patch", "pod", *shape.names, "--type=json", f"--patch={json.dumps([operation])}")
        patches.append(_kubectl(*patch, namespace=gang.owner.namespace))
    later = (
        "" if gang.owner.kind == "Pod" else f"Pods that {owner} creates later do not tolerate it"
    )
    return Step(_sentences("Let the pending pods tolerate the taint", later), tuple(patches))


def _slurm_steps(plan: ClusterPlan) -> Steps:
    """Return the steps for Slurm.

    ``scontrol requeue`` takes only batch jobs that allow it, and lets them wait for two minutes.
    """
    requeued = [each.gang.owner.name for each in plan.disruptions if each.gang.can_be_requeued]
    ended = [each.gang.owner.name for each in plan.disruptions if not each.gang.can_be_requeued]
    requeue = [join(("scontrol", "requeue", ",".join(requeued)))] if requeued else []
    end = [join(("scancel", *ended))] if ended else []
    stops = (
        *_if_any("Requeue the victims; they wait for at least two minutes", requeue),
        *_if_any("End the victims that cannot be requeued; they do not start again", end),
    )
    question = plan.case.question
    emptied = plan.before if isinstance(question, Fit) else plan
    names = emptied.nodes if emptied else ()
    node = (emptied or plan).case.snapshot.node
    opened = ",".join(name for name in names if node[name].closed_because not in STAYS_CLOSED)
    update = ("scontrol", "update", f"NodeName={opened}")
    close = [join((*update, "State=DRAIN", f"Reason={SLURM_NAME}"))] if opened else []
    resume = [join((*update, "State=RESUME"))] if opened else []
    closing = _if_any("Close the nodes; running jobs would go on to their end", close)
    opening = _if_any("Open the nodes again", resume)
    if isinstance(question, Fit):
        do, undo = _fit_on_slurm(plan.nodes, question.gang, (*closing, *stops))
        return Steps(do, (*undo, *opening))
    return Steps(
        (
            *closing,
            *stops,
            Step(
                "See which jobs are still on the nodes",
                (join(("squeue", f"--nodelist={','.join(plan.nodes)}")),),
            ),
        ),
        tuple(opening),
    )


def _fit_on_slurm(nodes: Sequence[str], gang: PendingGang, stops: Sequence[Step]) -> Steps:
    """Return the steps that start a pending job on reserved nodes.

    The reservation has no end, because Slurm ends jobs whose reservation ends. A running job can
    leave its reservation, which can be deleted only then.
    """
    job = gang.owner.name
    name = f"{SLURM_NAME}-{job or nodes[0]}"
    reservation = f"ReservationName={name}"
    user = gang.owner.namespace or "USER"
    reserve = (
        *("scontrol", "create", "reservation", reservation, f"Nodes={','.join(nodes)}"),
        *("StartTime=now", "Duration=UNLIMITED", "Flags=IGNORE_JOBS", f"Users={user}"),
    )
    delete = join(("scontrol", "delete", reservation))
    if job:
        update = ("scontrol", "update", f"JobId={job}")
        use = Step("Let the pending job use the reservation", (join((*update, reservation)),))
        clear = join((*update, "ReservationName="))
        leave = Step("Once the job runs, or to give up, let it leave the reservation", (clear,))
    else:
        number = "scontrol update JobId=NUMBER ReservationName="
        use = Step(f"Submit the job with sbatch --reservation={name}")
        leave = Step(f"Once the job runs, let it leave the reservation with {number}")
    who = "" if gang.owner.namespace else "; put the name of the user who submits for USER"
    return Steps(
        (Step(f"Keep other jobs off the nodes{who}", (join(reserve),)), *stops, use),
        (leave, Step("Open the nodes to other jobs again", (delete,))),
    )
