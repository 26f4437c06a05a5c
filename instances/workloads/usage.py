"""Read a published time series as the demand of an inference cluster.

The series has the GPU usage of a cluster, or the request rates of inference services.

*From request rates to GPUs.* Let r_s(t) be the mean rate of service s in a window, in requests per
second, and p_s its highest rate. One GPU serves the same rate of a service at all times. Service s
needs r_s(t) / p_s of the GPUs that it needs at its peak, and every service needs equally many GPUs
at its peak. The cluster is as large as the highest need of all services together. So its busy share
is T(t) / max T with T(t) = sum over s of r_s(t) / p_s, and one of its G GPUs serves
p_s * max T / G requests of service s per second. Only the shape of the rates matters, because
publishers may scale them. A lower target for the use of a GPU changes the need and the size of the
cluster by the same factor, so it has no effect.
"""

import math
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.numbers import DAY_S
from lyra_opt.core.reading_memory import ReadingMemory
from lyra_opt.core.rules import require_integer
from lyra_opt.instances.rows import Row, require_columns, rows_below
from lyra_opt.instances.traces import LARGEST_TRACE_BYTES, name_of
from lyra_opt.simulation.workload import InferenceDemand

USAGE_COLUMNS = ("time", "total_gpu_num", "running_gpu_num")
RATE_COLUMNS = ("service", "window_start_s", "requests_per_s")
STEP_S = 300

MOMENT_BYTES = 1200
"""Memory in bytes that one moment of the series needs."""

Moment = TypeVar("Moment", datetime, timedelta)


def read_usage(path: str | Path, *, step_s: int = STEP_S) -> InferenceDemand:
    """Return the inference demand that a CSV file of GPU usage or of request rates describes.

    An example of GPU usage is that of Helios' cluster Earth per minute. A row has the GPUs of
    a virtual cluster at a moment, and how many of them ran jobs. The busy share is that of all
    virtual clusters together, averaged over each step. This usage comes from training jobs, and
    results say so.

    An example of request rates are those of ServeGen. A row has the mean rate of a service in a
    window, and each window is a step. The docstring of the module has the model that turns rates
    into GPUs. Services with other windows than the longest series are left out, and results say so.

    Parameters
    ----------
    path
        A CSV file, plain or gzip, with the columns ``time, total_gpu_num, running_gpu_num`` or
        ``service, window_start_s, requests_per_s``. Times such as ``2020-05-01 00:00:00``, or
        seconds, are equally far apart; rows may have any order.
    step_s
        The length of a step of GPU usage in seconds, at least 1; a multiple of the spacing of the
        series.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column or a moment, or a value breaks its rule; the
        error names the row and the column.
    FieldError
        If `step_s` is not a multiple of the spacing of the series.

    Notes
    -----
    Takes O(rows) time. An incomplete last step is left out, unless it is the only step. Sources:
    the artifact of Hu et al., "Characterization and Prediction of Deep Learning Workloads in
    Large-Scale GPU Datacenters", SC 2021 (S-Lab-System-Group/HeliosArtifact); Xiang et al.,
    "ServeGen", arXiv 2505.09999 (alibaba/ServeGen). The model of GPUs is ours.
    """
    require_integer("step_s", step_s, minimum=1)
    source = str(path)
    text = read_text(source, LARGEST_TRACE_BYTES).removeprefix("\ufeff")
    lines = csv_rows(source, text)
    memory = ReadingMemory(source, sys.getsizeof(text))
    header = [name.strip() for name in next(lines, [])]
    is_rates = set(RATE_COLUMNS) <= {*header}
    columns = RATE_COLUMNS if is_rates else USAGE_COLUMNS
    other = "" if is_rates else f", or, for request rates, {', '.join(RATE_COLUMNS)}"
    require_columns(source, header, columns, f"a usage series has {', '.join(columns)}{other}")
    rows = rows_below(source, header, lines)
    if is_rates:
        spacing_s, shares, model = _shares_of_rates(source, rows, memory)
        step_s = spacing_s
    else:
        totals = _totals_by_moment(source, rows, memory)
        shares = _shares_of_usage(source, totals, step_s)
        model = (
            "Inference demand is the measured share of GPUs that ran jobs in a training cluster: "
            "its idle capacity is real, but its jobs are not inference.",
        )
    days = len(shares) * step_s / DAY_S
    return InferenceDemand(
        name=name_of(source) or "usage",
        step_s=float(step_s),
        busy_share=tuple(shares),
        assumptions=(
            *model,
            f"The series of inference demand covers {days:.3g} days, and is repeated.",
        ),
    )


def _shares_of_rates(
    source: str, rows: Iterable[Row], memory: ReadingMemory
) -> tuple[int, list[float], tuple[str, ...]]:
    """Return the seconds of a window, the busy share in each window, and the model in words."""
    rates: dict[str, dict[timedelta, float]] = {}
    for row in rows:
        of_service = rates.setdefault(row.required("service"), {})
        start = timedelta(milliseconds=row.milliseconds("window_start_s"))
        if start in of_service:
            raise row.error("window_start_s", "must not occur twice for a service")
        of_service[start] = row.decimal("requests_per_s")
        if of_service[start] < 0:
            raise row.error("requests_per_s", "must be at least 0")
        memory.add(MOMENT_BYTES)
    if not rates:
        raise InputError(source, "has a header, but no rows")
    longest = max(rates.values(), key=len)
    kept = {name: each for name, each in rates.items() if each.keys() == longest.keys()}
    moments = sorted(longest)
    peaks = {name: max(each.values()) for name, each in kept.items()}
    if idle := [name for name, peak in peaks.items() if not peak]:
        raise InputError(source, f"service {idle[0]} has no window with a rate above 0")
    needs = [
        math.fsum(each[moment] / peaks[name] for name, each in kept.items()) for moment in moments
    ]
    highest = max(needs)
    served = " or ".join(f"{peak * highest:,.4g} of {name}" for name, peak in peaks.items())
    model = [
        "Inference demand follows published request rates. Every service needs equally many GPUs "
        "at its peak, one GPU serves the same rate at all times, and the inference cluster is as "
        f"large as the highest need of all services: all its GPUs serve {served} requests per "
        "second. Bursts within a window are not in the data.",
    ]
    if others := rates.keys() - kept.keys():
        model.append(f"Services with a shorter series are left out: {', '.join(sorted(others))}.")
    return _spacing_s(source, moments), [need / highest for need in needs], tuple(model)


def _shares_of_usage(
    source: str, totals: dict[datetime, tuple[int, int]], step_s: int
) -> list[float]:
    """Return the share of GPUs that run jobs in each step."""
    moments = sorted(totals)
    spacing_s = _spacing_s(source, moments)
    if step_s % spacing_s:
        rule = f"must be a multiple of the seconds between the moments of {source}, {spacing_s}"
        raise FieldError("step_s", step_s, rule)
    width = step_s // spacing_s
    shares = []
    for step in range(max(1, len(moments) // width)):
        inside = [totals[moment] for moment in moments[step * width : (step + 1) * width]]
        shares.append(math.fsum(running / total for total, running in inside) / len(inside))
    return shares


def _totals_by_moment(
    source: str, rows: Iterable[Row], memory: ReadingMemory
) -> dict[datetime, tuple[int, int]]:
    """Return (GPUs, GPUs that run jobs) over all virtual clusters, by moment."""
    totals_of: dict[str, tuple[tuple[int, int], Row]] = {}
    for row in rows:
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


def _spacing_s(source: str, moments: Sequence[Moment]) -> int:
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
