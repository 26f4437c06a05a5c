"""The table that ``lyra-opt solve`` prints, with each answer and its gap to the best answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.commands.output import print_line, print_table
from lyra_opt.core.gaps import gap_words, percent_text
from lyra_opt.core.result import Status
from lyra_opt.core.solving import Answer, evidence_of
from lyra_opt.core.texts import show_count, show_seconds, show_value_of, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.core.evidence import Evidence
    from lyra_opt.core.result import Number

AnswersOfFile = tuple[str, list[Answer]]
"""A file name as typed, and one or more answers to its instance."""

NO_PERCENTAGE = "–"
"""Shown if the reference is or may be 0; the lines below the table explain it."""


def print_answers(answers: Sequence[AnswersOfFile]) -> None:
    """Print a table with one row per answer, then the solution and the gap of each answer."""
    rows = [
        (file, answer, evidence)
        for file, of_file in answers
        for evidence in [evidence_of(of_file)]
        for answer in of_file
    ]
    records = [answer.as_json_object(file, evidence) for file, answer, evidence in rows]
    known = dict.fromkeys(key for _, answer, _ in rows for key in answer.problem.answer_keys)
    # Keys without a value in any answer are left out, such as keys of other variants.
    keys = [key for key in known if any(record.get(key) is not None for record in records)]
    where = gap_words(*(answer.sense for _, answer, _ in rows)).where
    to_best, to_optimum = f"{where} best", f"{where} optimum"
    columns: dict[str, list[str]] = {
        "file": [file for file, _, _ in rows],
        "solver": [answer.solver for _, answer, _ in rows],
        "status": [
            str(answer.status) + (f" ({answer.stopped_by})" if answer.stopped_by else "")
            for _, answer, _ in rows
        ],
        "objective": [show_count(record["objective"]) for record in records],
        "dual bound": [show_count(record["dual_bound"]) for record in records],
        to_best: [_to_best(answer.objective, evidence) for _, answer, evidence in rows],
        to_optimum: [_to_optimum(answer.objective, evidence) for _, answer, evidence in rows],
        **{words(key): [show_count(record.get(key)) for record in records] for key in keys},
        "time": [show_seconds(answer.wall_time_s) for _, answer, _ in rows],
    }
    for header in ("dual bound", to_best, to_optimum):
        if not any(columns[header]):
            del columns[header]
    if len(answers) == 1:
        print_line(answers[0][0])
        del columns["file"]
    print_table(
        list(columns),
        list(zip(*columns.values(), strict=True)),
        list(columns).index("objective"),
        elsewhere="--json",
        least=[*map(words, reversed(keys)), "dual bound"],
    )
    for (file, answer, evidence), record in zip(rows, records, strict=True):
        lists = [
            f"{words(key)} {show_value_of(record[key])}"
            for key in keys
            if isinstance(record.get(key), list | dict)
        ]
        # For a proved optimum, the status already says how good the solution is.
        distance = None if answer.status is Status.OPTIMAL else evidence.in_words(answer.claim)
        solution = "; ".join(filter(None, [distance, *lists]))
        named = answer.solver if len(answers) == 1 else f"{file}, {answer.solver}"
        for text in filter(None, (answer.message, solution)):
            print_line(f"{named}: {text}", indent="  ")
        if answer.witness is not None:
            print_line(f"{named}, witness: {answer.witness}", indent="  ")


def _to_best(objective: Number | None, evidence: Evidence) -> str:
    """Return the gap to the best objective as text; empty for one solution or a known optimum."""
    gap = evidence.gap_to_best(objective)
    if gap is None or evidence.solutions < 2 or evidence.optimum is not None:
        return ""
    return _percent(gap)


def _to_optimum(objective: Number | None, evidence: Evidence) -> str:
    gap = evidence.gap_to_optimum_at_most(objective)
    if gap is None:
        return ""
    is_exact = evidence.optimum is not None or math.isinf(gap)
    return _percent(gap) if is_exact else f"≤ {_percent(gap)}"


def _percent(gap: float) -> str:
    return percent_text(gap) if math.isfinite(gap) else NO_PERCENTAGE
