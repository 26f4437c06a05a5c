"""The table that ``lyra-opt solve`` prints, with each answer and its gap to the best answer."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lyra_opt.commands.messages import Loudness, loudness
from lyra_opt.commands.output import print_formatted, print_line, print_table
from lyra_opt.commands.summaries import summaries_of, summary_table
from lyra_opt.core.evidence import Evidence
from lyra_opt.core.gaps import gap_words
from lyra_opt.core.numbers import DOWN, MISSING, UP, Show, count, percent, share, six_digits
from lyra_opt.core.result import Number, Status
from lyra_opt.core.solving import START_KEPT, Answer, evidence_of
from lyra_opt.core.table import Column, Table, as_text, run_times
from lyra_opt.core.texts import show_count, show_entries, show_value_of, words

AnswersOfFile = tuple[str, list[Answer]]
"""A file name as typed, and one or more answers to its instance."""

SAFE = {"min": DOWN, "max": UP}
"""The direction in which a dual bound is rounded, by the sense of the objective."""

MOST_IN_CELL = 3
"""The largest number of entries of an object that a cell shows."""


class Row(NamedTuple):
    """An answer with its file and the evidence of all answers to that file."""

    file: str
    answer: Answer[Any]
    evidence: Evidence

    @property
    def record(self) -> dict[str, Any]:
        """The object of ``--format json``."""
        return self.answer.as_json_object(self.file, self.evidence)

    @property
    def status(self) -> str:
        """The status, with the limit that ended the run, and whether it only kept its start."""
        remarks = (self.answer.stopped_by, START_KEPT if self.answer.start_kept else None)
        shown = ", ".join(str(each) for each in remarks if each)
        return f"{self.answer.status} ({shown})" if shown else str(self.answer.status)


def print_answers(answers: Sequence[AnswersOfFile], form: str = "table") -> None:
    """Print the answers, and for several files a summary of each solver.

    In a terminal, the solutions and the sentences of the summary follow the table. For several
    files, the solutions are printed only with ``--verbose``, and errors always.
    """
    rows = [
        Row(file, answer, evidence)
        for file, of_file in answers
        for evidence in [evidence_of(of_file)]
        for answer in of_file
    ]
    records = [row.record for row in rows]
    keys, details = _known_keys(rows, records)
    table = _table(rows, records, [key for key in keys if key not in details])
    summaries = summaries_of([(row.answer, row.evidence) for row in rows])
    tables = [table] if len(answers) == 1 else [table, summary_table(summaries)]
    if print_formatted(form, tables, records):
        return
    if len(answers) == 1:
        print_line(answers[0][0])
    print_table(table, elsewhere="--format json")
    for legend, of_files in _legends(answers).items():
        which = "" if len(answers) == len(of_files) else f"{', '.join(of_files)}: "
        print_line(f"{which}objective: {legend}", indent="  ")
    is_whole = len(answers) == 1 or loudness() >= Loudness.VERBOSE
    for (file, answer, evidence), record in zip(rows, records, strict=True):
        if not is_whole and answer.status is not Status.ERROR:
            continue
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
    if len(answers) > 1:
        for summary in summaries:
            print_line(summary.in_words(), indent="  ")


def _known_keys(
    rows: Sequence[Row], records: Sequence[Mapping[str, Any]]
) -> tuple[list[str], set[str]]:
    """Return the keys of solutions and measures with a value in some answer, and the long ones."""
    known = dict.fromkeys(key for row in rows for key in row.answer.problem.answer_keys)
    # Keys without a value in any answer are left out, such as keys of other variants.
    keys = [key for key in known if any(record.get(key) is not None for record in records)]
    return keys, {key for row in rows for key in row.answer.problem.detail_keys}


def _table(
    rows: Sequence[Row], records: Sequence[Mapping[str, Any]], tabled: Sequence[str]
) -> Table:
    """Return the table of the answers; `tabled` are the keys of the measures that it shows."""
    where = gap_words(*(row.answer.sense for row in rows)).where
    unit = "" if any(row.evidence.terms.keys for row in rows) else "%"

    def column(key: str, show: Show, texts: Iterable[str], heading: str, unit: str = "") -> Column:
        values = [record.get(key) for record in records]
        return Column(
            key=key, values=values, show=show, texts=list(texts), heading=heading, unit=unit
        )

    objectives = [_value(row.answer.objective, row.evidence) for row in rows]
    bounds = [_value(row.answer.dual_bound, row.evidence, SAFE[row.answer.sense]) for row in rows]
    to_best = [_to_best(row) for row in rows]
    to_optimum = [_to_optimum(row) for row in rows]
    columns = [
        column("solver", as_text, [row.answer.solver for row in rows], "solver"),
        column("status", as_text, [row.status for row in rows], "status"),
        column("objective", six_digits, objectives, "objective"),
        column("dual_bound", six_digits, bounds, "dual bound"),
        column("gap_to_best", percent, to_best, f"{where} best", unit),
        column("gap_to_optimum_at_most", percent, to_optimum, f"{where} optimum", unit),
        *(
            column(key, count, [_cell(record.get(key)) for record in records], words(key))
            for key in tabled
        ),
        run_times("wall_time_s", [row.answer.wall_time_s for row in rows], "time"),
    ]
    optional = {"dual_bound", "gap_to_best", "gap_to_optimum_at_most"}
    shown = [each for each in columns if each.key not in optional or any(each.cells)]
    paper = [each for each in shown if each.key not in {*tabled, "gap_to_best"}]
    files = [row.file for row in rows]
    note = ""
    if len(set(files)) > 1:
        shown.insert(0, Column(key="file", values=files))
        paper.insert(0, Column(key="instance", values=_stems(files)))
    if len({row.answer.solver for row in rows}) > 1 and len(set(files)) > 1:
        paper = _by_instance(rows)
        note = f"objective and, in brackets, {where} the optimum" + f" ({unit})" * bool(unit)
    return Table(shown, least=(*reversed(tabled), "dual_bound"), paper=paper, note=note)


def _by_instance(rows: Sequence[Row]) -> list[Column]:
    """Return a row per instance and a column per solver, with objectives and gaps as texts."""
    values, texts = {}, {}
    for row in rows:
        place, gap = (row.file, row.answer.solver), _to_optimum(row)
        values[place] = row.answer.objective
        is_unsupported = row.answer.status is Status.UNSUPPORTED
        status = MISSING if is_unsupported else row.status
        shown = _value(row.answer.objective, row.evidence) or status
        texts[place] = f"{shown} ({gap})" if gap else shown
    files = list(dict.fromkeys(row.file for row in rows))
    return [
        Column(key="instance", values=_stems(files)),
        *(
            Column(
                key=solver,
                values=[values.get((file, solver)) for file in files],
                show=six_digits,
                heading=solver,
                texts=[texts.get((file, solver), "") for file in files],
            )
            for solver in dict.fromkeys(row.answer.solver for row in rows)
        ),
    ]


def _stems(files: Sequence[str]) -> Sequence[str]:
    """Return the names of files without folder and ending, or the paths if two names are equal."""
    stems = [Path(file).name.removesuffix(".gz").removesuffix(".json") for file in files]
    return stems if len(set(stems)) == len(set(files)) else files


def _cell(value: object) -> str:
    """Return a value for a cell: few named numbers in full, other objects by their length."""
    if isinstance(value, dict) and len(value) <= MOST_IN_CELL:
        is_plain = all(isinstance(each, int | float) for each in value.values())
        return ", ".join(show_entries(value)) if value and is_plain else show_count(value)
    return six_digits(value) if isinstance(value, float) else show_count(value)


def _value(value: Number | None, evidence: Evidence, rounding: str | None = None) -> str:
    if value is None:
        return ""
    return (
        evidence.terms.in_words(value)
        if evidence.terms.keys
        else six_digits(value, rounding=rounding)
    )


def _legends(answers: Sequence[AnswersOfFile]) -> dict[str, list[str]]:
    """Return the files by the names of the terms of their objective, if it has several."""
    found: dict[str, list[str]] = {}
    for file, of_file in answers:
        has_values = any(each.objective is not None or each.dual_bound for each in of_file)
        if has_values and (legend := evidence_of(of_file).terms.legend):
            found.setdefault(legend, []).append(file)
    return found


def _to_best(row: Row) -> str:
    """Return the gap to the best objective as text; empty for one solution or a known optimum."""
    objective, evidence = row.answer.objective, row.evidence
    gap = evidence.gap_to_best(objective)
    if gap is None or evidence.solutions < 2 or evidence.optimum is not None:
        return ""
    return _difference(objective, evidence.best_objective, evidence) or _percent(gap)


def _to_optimum(row: Row) -> str:
    objective, evidence = row.answer.objective, row.evidence
    gap = evidence.gap_to_optimum_at_most(objective)
    if gap is None:
        return ""
    reference = evidence.best_bound if evidence.optimum is None else evidence.optimum
    shown = _difference(objective, reference, evidence)
    is_exact = evidence.optimum is not None or (math.isinf(gap) and not shown)
    return shown or _percent(gap) if is_exact else f"≤ {shown or _percent(gap, UP)}"


def _difference(objective: Number | None, reference: Number | None, evidence: Evidence) -> str:
    """Return the first term in which two objectives differ; empty if they are single numbers."""
    if objective is None or reference is None or not evidence.terms.keys:
        return ""
    return evidence.terms.difference(objective, reference)


def _percent(gap: float, rounding: str | None = None) -> str:
    # The lines below the table explain a missing percentage.
    return share(gap, rounding) if math.isfinite(gap) else MISSING
