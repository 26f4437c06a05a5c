"""The function ``lo.plan``, which answers an operator's question about a real cluster."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from lyra_opt.core.errors import UserError, without_inner_frames
from lyra_opt.experiments.planning import asking
from lyra_opt.experiments.planning.planning import plan as plan_of
from lyra_opt.experiments.planning.questions import choices_of
from lyra_opt.experiments.planning.words import ReadablePlan
from lyra_opt.instances.snapshots.reading import read_snapshot
from lyra_opt.instances.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lyra_opt.experiments.planning.questions import Question


@without_inner_frames
def plan(
    snapshot: Snapshot | str | Path | Iterable[str | Path],
    question: Literal["drain", "fit", "consolidate"],
    *names: str,
    cost: str = "gangs",
    force: bool = False,
    keep_budgets: bool = False,
    time_limit_s: float = 60.0,
    **options: Any,
) -> ReadablePlan:
    """Return the best plan for a real cluster, with its proof and the commands for it.

    No cluster is contacted. ``print`` shows the plan as ``lyra-opt plan`` does.

    Parameters
    ----------
    snapshot
        A file or several files of kubectl, KAI or Slurm, or a snapshot that was read before.
    question
        Which nodes to drain, whom to preempt so that pending pods fit, or how many nodes can be
        empty if pods may move.
    names
        The nodes to drain, or the pending gang.
    cost
        What a loss costs: ``gangs`` (by priority, then GPUs), ``pods``, ``gpus``, ``time``, or
        ``annotation:KEY``.
    force
        Whether pods without a controller may be stopped.
    keep_budgets
        Whether disruption budgets must be kept.
    time_limit_s
        Time after which the best plan is returned without a proof, in seconds.
    options
        The options of the question, named as on the command line: ``nodes``, ``among`` and
        ``without`` for a drain; ``pods``, ``request`` (amounts by resource), ``priority``,
        ``level``, ``gpu_type`` and ``tolerate`` for a fit; ``moves`` and ``among`` to consolidate.

    Raises
    ------
    UserError
        If a file, a name or an option is not valid.
    """
    if isinstance(snapshot, str | PathLike):
        snapshot = [snapshot]
    read = snapshot if isinstance(snapshot, Snapshot) else read_snapshot(snapshot)
    try:
        asked = _question(read, question, names, options)
    except TypeError as error:
        raise UserError(f"plan {question}: {error}") from None
    choices = choices_of(cost=cost, is_forced=force, keeps_budgets=keep_budgets)
    found = plan_of(read, asked, choices, time_limit_s=time_limit_s)
    return ReadablePlan(**vars(found))


def _question(
    snapshot: Snapshot, question: str, names: tuple[str, ...], options: dict[str, Any]
) -> Question:
    if question == "drain":
        return asking.drain(names, **options)
    if question == "fit":
        return asking.fit(snapshot, *names, **options)
    if question == "consolidate":
        return asking.consolidate(**options)
    raise UserError(f"question is {question!r}: must be drain, fit or consolidate")
