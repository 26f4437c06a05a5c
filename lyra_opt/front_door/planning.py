"""The function ``lo.plan``, which answers an operator's question about a real cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from lyra_opt.core.errors import UserError, show_value, without_inner_frames
from lyra_opt.core.nearest_names import meant, one_of
from lyra_opt.core.texts import PrintedText
from lyra_opt.experiments.planning import asking, words
from lyra_opt.experiments.planning.page import plan_page, require_page_path
from lyra_opt.experiments.planning.picture import plan_picture
from lyra_opt.experiments.planning.planning import ClusterPlan
from lyra_opt.experiments.planning.planning import plan as plan_of
from lyra_opt.experiments.planning.questions import choices_of
from lyra_opt.experiments.planning.showing import print_plan, text_of
from lyra_opt.experiments.planning.steps import steps_of
from lyra_opt.front_door.printed import Printed
from lyra_opt.instances.snapshots.reading import read_snapshot
from lyra_opt.instances.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from matplotlib.figure import Figure

    from lyra_opt.experiments.planning.questions import Question
    from lyra_opt.instances.snapshots.owners import Form

Kind = Literal["drain", "fit", "consolidate"]

OPTIONS: Mapping[Kind, tuple[str, ...]] = {
    "drain": ("nodes", "among", "without"),
    "fit": (
        *("pods", "gpus", "cpu", "memory", "resource"),
        *("priority", "level", "type", "tolerate", "among", "without", "drain"),
    ),
    "consolidate": ("moves", "among"),
}
"""The options of each question."""

COMMON = ("cost", "force", "keep_budgets", "time_limit_s", "explain", "reader", "owner", "progress")


@dataclass(frozen=True, kw_only=True, repr=False)
class ReadablePlan(Printed, ClusterPlan):
    """A plan that ``print`` shows in an operator's words.

    Parameters
    ----------
    explanations
        Sentences that say why the plan uses the nodes of ``explain``, or does not.
    files
        The names of the files that were read.
    """

    explanations: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the answer in one sentence."""
        return f"<plan: {words.headline(self)}>"

    def _print(self) -> None:
        print_plan(self, self.explanations)

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands of the plan, in order."""
        return tuple(command for step in steps_of(self).do for command in step.commands)

    @property
    def undo(self) -> tuple[str, ...]:
        """The commands that undo the plan, in order."""
        return tuple(command for step in steps_of(self).undo for command in step.commands)

    @property
    def frame(self) -> pd.DataFrame:
        """The table of the jobs that lose or move pods, with the nodes of these pods."""
        found = words.hurt_table(self).frame()
        pods = [[*each.lost, *(pod for pod, _ in each.moved)] for each in self.disruptions]
        found["nodes"] = [", ".join(dict.fromkeys(pod.node for pod in of)) for of in pods]
        return found

    @property
    def proof(self) -> str:
        """The sentence that says what is proved; without a plan, why none exists."""
        return words.proof_sentence(self) if self.exists else words.headline(self)

    @without_inner_frames
    def summary(self, format: str = "table") -> str:  # noqa: A002 - the name of the option
        """Return the plan as text in a format of ``lyra-opt plan --format``."""
        if format == "table":
            return PrintedText(f"{self}\n")
        return PrintedText(text_of(self, format, self.explanations))

    @without_inner_frames
    def plot(self, *, style: str = "page", file: str | Path | None = None) -> Figure:
        """Return a picture of the nodes before and after, and write it to a file if one is given.

        A notebook shows the figure if the call is the last line of a cell, without a semicolon.

        Raises
        ------
        UserError
            If no plan exists, or the file cannot be written.
        """
        return plan_picture(self, style, file)

    @without_inner_frames
    def page(self, file: str | Path) -> None:
        """Write the plan as an HTML page to pass on.

        Raises
        ------
        UserError
            If the file cannot be written.
        """
        from lyra_opt.core.documents import write_text

        require_page_path("file", str(file))
        write_text(file, plan_page(self, self.explanations, self.files))


@without_inner_frames
def plan(
    snapshot: Snapshot | str | Path | Iterable[str | Path],
    question: Kind,
    *names: str,
    cost: str = "gangs",
    force: bool = False,
    keep_budgets: bool = False,
    time_limit_s: float = 60.0,
    explain: str | Iterable[str] = (),
    reader: str | None = None,
    owner: Mapping[str, Form] | None = None,
    progress: bool = False,
    **options: Any,
) -> ReadablePlan:
    """Return the best plan for a real cluster, with its proof and the commands for it.

    No cluster is contacted. ``print`` shows the plan as ``lyra-opt plan`` does; `summary`, `page`
    and `plot` of the plan write it for others, and `frame` has the jobs that are hurt.

    Parameters
    ----------
    snapshot
        A file or several files of kubectl, KAI or Slurm, or a snapshot that was read before.
    question
        Which nodes to drain, whom to preempt so that pending pods fit, or how many nodes can be
        empty if pods may move.
    *names
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
    explain
        Nodes of which the plan says why it uses them, or why it does not.
    reader
        The name of the reader; None recognises it by the content of the files.
    owner
        How the pods of unknown kinds of owners stand, by kind: ``gang``, ``single`` or ``fixed``.
    progress
        Whether a terminal shows the best plan and the proved bound while the search runs.
    **options
        The options of the question, named as on the command line: ``nodes``, ``among`` and
        ``without`` (for ``--not``) for a drain; ``pods``, ``gpus``, ``cpu``, ``memory``,
        ``resource`` (amounts by name), ``priority``, ``level``, ``type``, ``tolerate``, ``among``,
        ``without`` and ``drain`` for a fit; ``moves`` and ``among`` to consolidate.

    Raises
    ------
    UserError
        If a file, a name or an option is not valid.
    """
    if question not in OPTIONS:
        is_swapped = isinstance(snapshot, str) and snapshot in OPTIONS
        hint = "the snapshot comes before the question" if is_swapped else one_of(question, OPTIONS)
        raise UserError(f"question is {show_value(question)}: {hint}")
    for name in options:
        known = OPTIONS[question]
        if name not in known:
            hint = meant(name, known, also=COMMON)
            raise UserError(f"plan {question} has no option {show_value(name)}; {hint}")
    files: tuple[str, ...] = ()
    if not isinstance(snapshot, Snapshot):
        paths = [snapshot] if isinstance(snapshot, str | PathLike) else snapshot
        if isinstance(paths, Mapping) or not isinstance(paths, Iterable):
            rule = "must be a file of kubectl or Slurm, several files, or a Snapshot"
            raise UserError(f"snapshot is {show_value(snapshot)}: {rule}")
        files = tuple(map(str, paths))
        snapshot = read_snapshot(files, reader, owners=owner or {})
    choices = choices_of(cost=cost, is_forced=force, keeps_budgets=keep_budgets)
    asked = _question(snapshot, question, names, options)
    found = plan_of(snapshot, asked, choices, time_limit_s=time_limit_s, shows_progress=progress)
    reasons = words.explanation_sentences(found, asking.names_in(explain), time_limit_s)
    return ReadablePlan(**vars(found), explanations=reasons, files=files)


def _question(
    snapshot: Snapshot, question: Kind, names: tuple[str, ...], options: dict[str, Any]
) -> Question:
    if question == "drain":
        return asking.drain(names, **options)
    if question == "consolidate" and not names:
        return asking.consolidate(**options)
    if question == "consolidate" or len(names) > 1:
        raise UserError(f"plan {question}: does not take the name {show_value(names[-1])}")
    request = {"gpu": options.pop("gpus", None), **options.pop("resource", {})}
    request |= {name: options.pop(name, None) for name in ("cpu", "memory")}
    return asking.fit(snapshot, *names, request=request, **options)
