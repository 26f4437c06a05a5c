"""The table that ``lyra-opt solve`` prints, with each answer and its gap to the best answer."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.commands.output import print_line, print_table
from lyra_opt.core.gaps import gap_words, percent_text
from lyra_opt.core.result import Status
from lyra_opt.core.solving import Answer, evidence_of
from lyra_opt.core.texts import show_count, show_entries, show_seconds, show_value_of, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.core.evidence import Evidence
    from lyra_opt.core.result import Number

AnswersOfFile = tuple[str, list[Answer]]
"""A file name as typed, and one or more answers to its instance."""

MOST_IN_CELL = 3
"""The largest number of entries of an object that a cell shows."""

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
    details = {key for _, answer, _ in rows for key in answer.problem.detail_keys}
    tabled = [key for key in keys if key not in details]
    where = gap_words(*(answer.sense for _, answer, _ in rows)).where
    to_best, to_optimum = f"{where} best", f"{where} optimum"
    columns: dict[str, list[str]] = {
        "file": [file for file, _, _ in rows],
        "solver": [answer.solver for _, answer, _ in rows],
        "status": [
            str(answer.status) + (f" ({answer.stopped_by})" if answer.stopped_by else "")
            for _, answer, _ in rows
        ],
        "objective": [_value(answer.objective, evidence) for _, answer, evidence in rows],
        "dual bound": [_value(answer.dual_bound, evidence) for _, answer, evidence in rows],
        to_best: [_to_best(answer.objective, evidence) for _, answer, evidence in rows],
        to_optimum: [_to_optimum(answer.objective, evidence) for _, answer, evidence in rows],
        **{words(key): [_cell(record.get(key)) for record in records] for key in tabled},
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
        least=[*map(words, reversed(tabled)), "dual bound"],
    )
    for legend, of_files in _legends(answers).items():
        which = "" if len(answers) == 1 else f"{', '.join(of_files)}: "
        print_line(f"{which}objective: {legend}", indent="  ")
    for (file, answer, evidence), record in zip(rows, records, strict=True):
        lists = [
            f"{words(key)} {show_value_of(record[key])}"
            for key in keys
            if isinstance(record.get(key), list | dict)
            and (record[key] or key not in details)
            and key != evidence.terms.measure
        ]
        # For a proved optimum, the status already says how good the solution is.
        distance = None if answer.status is Status.OPTIMAL else evidence.in_words(answer.claim)
        solution = "; ".join(filter(None, [distance, *lists]))
        named = answer.solver if len(answers) == 1 else f"{file}, {answer.solver}"
        for text in filter(None, (answer.message, solution)):
            print_line(f"{named}: {text}", indent="  ")
        if answer.witness is not None:
            print_line(f"{named}, witness: {answer.witness.in_words(evidence.terms)}", indent="  ")


def _cell(value: object) -> str:
    """Return a value for a cell: few named numbers in full, other objects by their length."""
    if isinstance(value, dict) and len(value) <= MOST_IN_CELL:
        is_plain = all(isinstance(each, int | float) for each in value.values())
        return ", ".join(show_entries(value)) if value and is_plain else show_count(value)
    return show_count(value)


def _value(value: Number | None, evidence: Evidence) -> str:
    return "" if value is None else evidence.terms.in_words(value)


def _legends(answers: Sequence[AnswersOfFile]) -> dict[str, list[str]]:
    """Return the files by the names of the terms of their objective, if it has several."""
    found: dict[str, list[str]] = {}
    for file, of_file in answers:
        has_values = any(each.objective is not None or each.dual_bound for each in of_file)
        if has_values and (legend := evidence_of(of_file).terms.legend):
            found.setdefault(legend, []).append(file)
    return found


def _to_best(objective: Number | None, evidence: Evidence) -> str:
    """Return the gap to the best objective as text; empty for one solution or a known optimum."""
    best, gap = evidence.best_objective, evidence.gap_to_best(objective)
    if gap is None or evidence.solutions < 2 or evidence.optimum is not None:
        return ""
    return _difference(objective, best, evidence) or _percent(gap)


def _to_optimum(objective: Number | None, evidence: Evidence) -> str:
    gap = evidence.gap_to_optimum_at_most(objective)
    if gap is None:
        return ""
    reference = evidence.best_bound if evidence.optimum is None else evidence.optimum
    shown = _difference(objective, reference, evidence)
    is_exact = evidence.optimum is not None or (math.isinf(gap) and not shown)
    return ("" if is_exact else "≤ ") + (shown or _percent(gap))


def _difference(objective: Number | None, reference: Number | None, evidence: Evidence) -> str:
    """Return the first term in which two objectives differ; empty if they are single numbers."""
    if objective is None or reference is None or not evidence.terms.keys:
        return ""
    return evidence.terms.difference(objective, reference)


def _percent(gap: float) -> str:
    return percent_text(gap) if math.isfinite(gap) else NO_PERCENTAGE
