"""Write a plan for a terminal, a ticket, a paper, a spreadsheet or a program."""

from collections.abc import Sequence
from typing import Any

from lyra_opt.commands.output import print_line, print_table
from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import one_line
from lyra_opt.core.table import Column, Table
from lyra_opt.experiments.planning import words
from lyra_opt.experiments.planning.planning import ClusterPlan
from lyra_opt.experiments.planning.steps import steps_of


def print_plan(plan: ClusterPlan, reasons: Sequence[str] = ()) -> None:
    """Print a plan for a person: the nodes to use, who is hurt, the proof, and the limits.

    Parameters
    ----------
    reasons
        Sentences on single nodes.
    """
    for sentence in _sentences(plan, reasons):
        print_line(sentence)
    if plan.disruptions:
        print()
        print_table(words.hurt_table(plan), None)
    for heading, lines in words.command_lines(plan):
        print(f"\n{heading}:")
        print("\n".join(lines))
    print()
    for sentence in words.limits(plan):
        print_line(sentence)


def text_of(plan: ClusterPlan, form: str, reasons: Sequence[str] = ()) -> str:
    """Return a plan in a format of ``--format`` other than that of a terminal.

    Markdown and JSON have the whole plan. LaTeX has the table, with the sentences as comments, and
    CSV the table of `who_is_hurt`.
    """
    if form == "json":
        return format_document(
            {**as_json_object(plan), "explanations": list(reasons)}, ascii_only=True
        )
    if form == "markdown":
        return _markdown(plan, reasons)
    if form == "latex":
        sentences = (*_sentences(plan, reasons), *words.limits(plan))
        comments = "".join(f"% {one_line(sentence)}\n" for sentence in sentences)
        return comments + words.hurt_table(plan).text(form)
    return who_is_hurt(plan).text(form)


def who_is_hurt(plan: ClusterPlan) -> Table:
    """Return the table of a plan for programs, with the nodes of the plan in each row.

    If nobody is hurt, the only row has the nodes alone.
    """
    table = words.hurt_table(plan)
    columns = table.columns
    if plan.nodes and not plan.disruptions:
        columns = [Column(key=each.key, values=[None]) for each in columns]
    rows = len(columns[0].values)
    return Table([Column(key="nodes", values=[" ".join(plan.nodes)] * rows), *columns])


def _sentences(plan: ClusterPlan, reasons: Sequence[str]) -> list[str]:
    return [words.headline(plan), *words.verdict(plan), *reasons]


def _markdown(plan: ClusterPlan, reasons: Sequence[str]) -> str:
    """Return a plan as Markdown for a ticket."""
    first, *others = _sentences(plan, reasons)
    parts = [f"**{first}**", *others]
    if plan.disruptions:
        parts.append(words.hurt_table(plan).text("markdown").rstrip())
    for heading, lines in words.command_lines(plan):
        parts += [f"### {heading}", "\n".join(("```sh", *lines, "```"))]
    limits = "\n".join(f"- {one_line(sentence)}" for sentence in words.limits(plan))
    return "\n\n".join((*parts, "### What the plan rests on", limits)) + "\n"


def as_json_object(plan: ClusterPlan) -> dict[str, Any]:
    """Return the plan as the JSON object that ``lyra-opt plan --format json`` prints."""
    answer, exists = plan.answer, plan.exists
    steps = steps_of(plan)
    return {
        "headline": words.headline(plan),
        "status": str(plan.status),
        "terms": dict(answer.measures.get("terms") or {}),
        "proof": words.proof_sentence(plan) if exists else None,
        "rule": words.rule_sentence(plan) or None,
        "nodes": list(plan.nodes),
        "drained": list(plan.before.nodes) if plan.before else [],
        "placements": [
            {"shape": shape, "node": node, "pods": count} for shape, node, count in plan.placements
        ],
        "disruptions": [
            {
                "gang": each.gang.id,
                "owner": f"{each.gang.owner.kind}/{each.gang.owner.name}",
                "priority": each.gang.priority,
                "is_whole": each.is_whole,
                "lost_pods": [pod.name for pod in each.lost],
                "moved_pods": [{"pod": pod.name, "to": to} for pod, to in each.moved],
                "lost_gpus": each.lost_gpus,
                "lost_gpu_s": each.lost_gpu_s,
                "restarts_on": list(each.restarts_on),
            }
            for each in plan.disruptions
        ],
        "blocking": [gang.id for gang in plan.blocking],
        "commands": [command for step in steps.do for command in step.commands],
        "undo": [command for step in steps.undo for command in step.commands],
        "limits": list(words.limits(plan)),
        "wall_time_s": answer.wall_time_s,
    }
