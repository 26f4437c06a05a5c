"""Read a published time series of GPU usage as the demand of an inference cluster."""

import math
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.rows import Row, require_columns, rows_below
from lyra_opt.instances.traces import LARGEST_TRACE_BYTES, name_of
from lyra_opt.simulation.workload import InferenceDemand

USAGE_COLUMNS = ("time", "total_gpu_num", "running_gpu_num")
STEP_S = 300
DAY_S = 86_400

MOMENT_BYTES = 1200
"""Memory in bytes that one moment of the series needs."""


def read_usage(path: str | Path, *, step_s: int = STEP_S) -> InferenceDemand:
    """Return the inference demand that a CSV file of GPU usage describes.

    An example is the usage per minute of Helios' cluster Earth. A row has the GPUs of
    a virtual cluster at a moment, and how many of them ran jobs. The busy share is that of all
    virtual clusters together, averaged over each step. The usage comes from training jobs. It
    replaces inference load, which nobody publishes, and results say so.

    Parameters
    ----------
    path
        A CSV file, plain or gzip, with the columns ``time, total_gpu_num, running_gpu_num``. Times
        such as ``2020-05-01 00:00:00`` are equally far apart; rows may have any order.
    step_s
        The length of a step in seconds, at least 1; a multiple of the spacing of the series.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column or a moment, or a value breaks its rule; the
        error names the row and the column.
    FieldError
        If `step_s` is not a multiple of the spacing of the series.

    Notes
    -----
    Takes O(rows) time. An incomplete last step is left out, unless it is the only step. Source: the
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
            "its idle capacity is real, but its jobs are not inference.",
            f"The series of inference demand covers {days:.3g} days, and is repeated.",
        ),
    )


def _totals_by_moment(source: str) -> dict[datetime, tuple[int, int]]:
    """Return (GPUs, GPUs that run jobs) over all virtual clusters, by moment."""
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    rows = csv_rows(source, text)
    memory = ReadingMemory(source, sys.getsizeof(text))
    totals_of: dict[str, tuple[tuple[int, int], Row]] = {}
    header = [name.strip() for name in next(rows, [])]
    expected = f"a usage series has {', '.join(USAGE_COLUMNS)}"
    require_columns(source, header, USAGE_COLUMNS, expected)
    for row in rows_below(source, header, rows):
        total, running = row.count("total_gpu_num"), row.count("running_gpu_num")
        if running > total:
            raise row.error("running_gpu_num", f"must be at most total_gpu_num, {total}")
        before, first = totals_of.get(row.text("time"), ((0, 0), row))
        if first is row:
            memory.add(MOMENT_BYTES)
        totals_of[row.text("time")] = (before[0] + total, before[1] + running), first
    if not totals_of:
        raise InputError(source, "has a header, but no rows")
    totals: dict[datetime, tuple[int, int]] = {}
    for time, ((total, running), first) in totals_of.items():
        if not total:
            rule = "must be above 0 for at least one virtual cluster at each time"
            raise first.error("total_gpu_num", rule)
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            rule = "must be a date and time such as 2020-05-01 00:00:00"
            raise first.error("time", rule) from None
        if moment.tzinfo is not None or moment in totals:
            raise first.error("time", "must have no time zone and the same format in all rows")
        totals[moment] = total, running
    return totals


def _spacing_s(source: str, moments: list[datetime]) -> int:
    """Return the seconds between moments; `InputError` unless they are whole and all equal."""
    if len(moments) < 2:
        raise InputError(source, "has only one moment; a usage series needs at least two")
    spacing = moments[1] - moments[0]
    for before, after in pairwise(moments):
        if after - before != spacing:
            reason = f"its moments are not equally far apart: no moment is {spacing} after {before}"
            raise InputError(source, reason)
    if spacing % timedelta(seconds=1):
        raise InputError(source, "its moments are not whole seconds apart")
    return spacing // timedelta(seconds=1)
