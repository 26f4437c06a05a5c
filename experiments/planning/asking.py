"""Build questions from the words of an operator: the options of the command and of ``lo.plan``."""

from collections.abc import Iterable, Mapping, Sequence

from lyra_opt.core.errors import UserError, show_value
from lyra_opt.experiments.planning.questions import (
    Consolidate,
    Drain,
    Fit,
    hint_for,
    pods_like,
    selector_of,
)
from lyra_opt.instances.snapshots.quantities import amount
from lyra_opt.instances.snapshots.snapshot import GPU, MOST_PODS, Owner, PendingGang, Snapshot


def names_in(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name or several names as a tuple."""
    return (given,) if isinstance(given, str) else tuple(given)


def drain(
    names: Sequence[str] = (),
    nodes: int = 0,
    among: str | None = None,
    without: str | Iterable[str] = (),
) -> Drain:
    """Return the question which nodes to drain.

    Parameters
    ----------
    names
        Nodes that must be drained.
    nodes
        Number of further nodes to choose.
    among
        A label selector of the nodes that can be chosen; None for open nodes with GPUs.
    without
        Nodes that must not be chosen.

    Raises
    ------
    UserError
        If neither nodes nor a number are given.
    """
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 0:
        raise UserError(f"nodes is {show_value(nodes)}: must be an integer of at least 0")
    if not names and not nodes:
        raise UserError("drain: name nodes, or give a number of nodes above 0 to choose")
    without = names_in(without)
    if both := set(names) & set(without):
        raise UserError(f"node {min(both)} is to be drained, and must not be chosen")
    conditions = selector_of(among) if among else ()
    return Drain(nodes=tuple(names), count=nodes, among=conditions, excluding=without)


def fit(  # noqa: PLR0913 - the options of the command, each by keyword
    snapshot: Snapshot,
    gang: str | None = None,
    *,
    pods: int | None = None,
    request: Mapping[str, str | int | None] | None = None,
    priority: str | int | None = None,
    tolerate: str | Iterable[str] = (),
    level: str | None = None,
    type: str | None = None,  # noqa: A002 - the name of the option
    among: str | None = None,
    without: str | Iterable[str] = (),
    drain: str | Iterable[str] = (),
) -> Fit:
    """Return the question whom to preempt so that pending pods fit.

    Parameters
    ----------
    gang
        The name of a pending gang of the snapshot; None if the other parameters describe pods.
    pods
        Number of pods.
    request
        Amount of each resource for each pod, as Kubernetes writes it (``500m``, ``128Gi``); None
        for a resource that is not requested.
    priority
        A priority class, partition or QOS of the snapshot, or a number; 0 by default.
    tolerate
        Keys of taints that the pods tolerate.
    level, type
        As `level` and `gpu_type` in `Fit`.
    among
        A label selector of the nodes that take the pods; None for all open nodes.
    without
        Nodes that take none of the pods.
    drain
        Nodes that are drained first.

    Raises
    ------
    UserError
        If both or neither of gang and pods are given, or a value is not valid.
    """
    if (gang is None) == (pods is None):
        raise UserError("fit: either name a pending gang, or describe pods by their number")
    described = [*(request or {}).values(), priority, *names_in(tolerate)]
    if pods is None and any(each is not None for each in described):
        raise UserError("fit: a pending gang has its own requests, priority and tolerations")
    if pods is None:
        pending = pending_gang(snapshot, str(gang))
    else:
        if not isinstance(pods, int) or not 1 <= pods <= MOST_PODS:
            raise UserError(f"pods is {show_value(pods)}: must be an integer from 1 to {MOST_PODS}")
        amounts = {name: each for name, each in (request or {}).items() if each is not None}
        pending = _described(snapshot, pods, amounts, priority, names_in(tolerate))
    return Fit(
        gang=pending,
        gpu_type=type or "",
        level=level or "",
        among=selector_of(among) if among else (),
        excluding=names_in(without),
        drained=names_in(drain),
    )


def consolidate(moves: int | None = None, among: str | None = None) -> Consolidate:
    """Return the question how many nodes can be empty, with at most `moves` pods that move."""
    return Consolidate(most_moves=moves, among=selector_of(among) if among else ())


def pending_gang(snapshot: Snapshot, name: str) -> PendingGang:
    """Return the pending gang with a name, with or without its namespace, or a job by its name.

    Raises
    ------
    UserError
        If no pending gang or several have this name.
    """
    found = [
        gang
        for gang in snapshot.pending
        if name in (gang.id, gang.id.rpartition("/")[2], gang.job_name)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(gang.id for gang in found)
        raise UserError(f"several pending gangs are called {name}: {named}")
    hint = hint_for(name, [gang.job_name or gang.id for gang in snapshot.pending])
    raise UserError(f"no pending gang is called {show_value(name)}; {hint}")


def _described(
    snapshot: Snapshot,
    pods: int,
    request: Mapping[str, str | int],
    priority: str | int | None,
    tolerate: Sequence[str],
) -> PendingGang:
    """Return the pending gang that an operator describes."""
    if not request:
        raise UserError("fit: give the GPUs, CPUs, memory or another resource of each pod")
    try:
        amounts = {
            GPU if name == snapshot.gpu_name else name: amount(name, text)
            for name, text in request.items()
        }
    except ValueError as error:
        raise UserError(f"fit: {error}") from None
    if any("pods" in node.capacity for node in snapshot.nodes):
        amounts["pods"] = 1
    return PendingGang(
        id="pending",
        owner=Owner(kind="Pod", name=""),
        shapes=(pods_like(pods, amounts, tolerate),),
        min_pods=pods,
        priority=_priority(priority, snapshot.priorities),
    )


def _priority(given: str | int | None, known: Mapping[str, int]) -> int:
    if given is None:
        return 0
    if given in known:
        return known[str(given)]
    try:
        return int(given)
    except ValueError:
        hint = hint_for(str(given), known)
        raise UserError(f"priority {given}: must be a number or a known class; {hint}") from None
