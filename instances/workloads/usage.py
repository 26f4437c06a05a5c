"""Read a published series of GPU usage as the demand of an inference cluster."""

from __future__ import annotations

import math
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.core.validation import require_integer
from lyra_opt.instances.traces import LARGEST_TRACE_BYTES, bad_value, name_of
from lyra_opt.simulation.workload import InferenceDemand

if TYPE_CHECKING:
    from pathlib import Path

USAGE_COLUMNS = ("time", "total_gpu_num", "running_gpu_num")
STEP_S = 300
DAY_S = 86_400

LONGEST_COUNT = 9
MOMENT_BYTES = 600
"""Memory of a moment that was read."""


def read_usage(path: str | Path, *, step_s: int = STEP_S) -> InferenceDemand:
    """Read GPU usage per minute, such as that of Helios' cluster Earth, as inference demand.

    A row says how many GPUs a virtual cluster had at a moment and how many of them ran jobs; the
    busy share is that of all virtual clusters together, averaged over each step. It is usage by
    training jobs: a stand-in for inference load with real idle capacity, and said to be one.

    Parameters
    ----------
    path
        CSV, plain or gzip, with the columns ``time, total_gpu_num, running_gpu_num`` among
        others; times such as ``2020-05-01 00:00:00``, equally far apart, rows in any order.
    step_s
        Length of a step in seconds, at least 1; a multiple of the series' own.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column or a moment, or if a value breaks its rule;
        names the row and the column.
    FieldError
        If `step_s` is no multiple of the series' own step.

    Notes
    -----
    Time O(rows). A last step that is not whole is left out, unless it is the only one. Source: the
    artifact of Hu et al., "Characterization and Prediction of Deep Learning Workloads in
    Large-Scale GPU Datacenters", SC 2021 (S-Lab-System-Group/HeliosArtifact).
    """
    require_integer("step_s", step_s, minimum=1)
    source = str(path)
    totals = _totals_by_moment(source)
    moments = sorted(totals)
    spacing_s = _spacing_s(source, moments)
    if step_s % spacing_s:
        rule = f"must be a multiple of the seconds between the moments of {source}, {spacing_s}"
        raise FieldError("step_s", step_s, rule)
    width = step_s // spacing_s
    steps = max(1, len(moments) // width)
    shares = []
    for step in range(steps):
        inside = [totals[moment] for moment in moments[step * width : (step + 1) * width]]
        shares.append(math.fsum(running / total for total, running in inside) / len(inside))
    days = steps * step_s / DAY_S
    return InferenceDemand(
        name=name_of(source) or "usage",
        step_s=float(step_s),
        busy_share=tuple(shares),
        assumptions=(
            "Inference demand is the measured share of GPUs that ran jobs in a training cluster: "
            "its idle capacity is real, its jobs are not inference.",
            f"The series of inference demand covers {days:.3g} days and starts over where it ends.",
        ),
    )


def _totals_by_moment(source: str) -> dict[datetime, tuple[int, int]]:
    """Return (GPUs, GPUs that run jobs) over all virtual clusters, by moment."""
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    rows = csv_rows(source, text)
    memory = ReadingMemory(source, sys.getsizeof(text))
    by_text: dict[str, tuple[int, int]] = {}
    first_row: dict[str, int] = {}
    header = [name.strip() for name in next(rows, [])]
    for column in USAGE_COLUMNS:
        if header.count(column) != 1:
            found = "is missing" if column not in header else "occurs more than once"
            expected = ", ".join(USAGE_COLUMNS)
            reason = f"row 1: column {column} {found}; a usage series has {expected}"
            raise InputError(source, reason)
    at_time, at_total, at_running = (header.index(column) for column in USAGE_COLUMNS)
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            reason = f"row {number} has {len(row)} fields, but the header has {len(header)}"
            raise InputError(source, reason)
        total = _gpus(source, number, "total_gpu_num", row[at_total])
        running = _gpus(source, number, "running_gpu_num", row[at_running])
        if running > total:
            rule = f"must be at most total_gpu_num, {total}"
            raise bad_value(source, number, "running_gpu_num", row[at_running], rule)
        time = row[at_time]
        before = by_text.get(time)
        if before is None:
            by_text[time], first_row[time] = (total, running), number
            memory.add(MOMENT_BYTES)
        else:
            by_text[time] = before[0] + total, before[1] + running
    if not by_text:
        raise InputError(source, "has a header, but no rows")
    totals: dict[datetime, tuple[int, int]] = {}
    for time, (total, running) in by_text.items():
        if not total:
            rule = "must not be 0 for all virtual clusters at one time"
            raise bad_value(source, first_row[time], "total_gpu_num", "0", rule)
        try:
            moment = datetime.fromisoformat(time.strip())
        except ValueError:
            rule = "must be a date and time such as 2020-05-01 00:00:00"
            raise bad_value(source, first_row[time], "time", time, rule) from None
        if moment.tzinfo is not None or moment in totals:
            rule = "must be a time without zone, written alike in all rows"
            raise bad_value(source, first_row[time], "time", time, rule)
        totals[moment] = total, running
    return totals


def _gpus(source: str, number: int, column: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= LONGEST_COUNT):
        rule = f"must be an integer of at least 0, of {LONGEST_COUNT} digits at most"
        raise bad_value(source, number, column, text, rule)
    return int(digits)


def _spacing_s(source: str, moments: list[datetime]) -> int:
    """Return how far apart the moments are, which must be equal and of whole seconds."""
    if len(moments) < 2:
        raise InputError(source, "has one moment only: a usage series has two or more")
    spacing = moments[1] - moments[0]
    for before, after in pairwise(moments):
        if after - before != spacing:
            reason = f"its moments are not equally far apart: none is {spacing} after {before}"
            raise InputError(source, reason)
    if spacing % timedelta(seconds=1):
        raise InputError(source, "its moments are not whole seconds apart")
    return spacing // timedelta(seconds=1)
