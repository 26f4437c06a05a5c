"""Read published logs of placements: on which servers the workers of jobs ran, and when.

A moment of such a log is a `Snapshot`: its nodes are the servers, its running gangs the jobs that
ran, its pending gangs the jobs that waited. All logs become the same records first: `LogServer`
and `LogWorkers`. ``placement_tables.toml`` declares the columns of the logs that are CSV
tables; `_philly_records` reads Philly's JSON log.

Sources: the README files of msr-fiddle/philly-traces and alibaba/clusterdata
(cluster-trace-gpu-v2020), and docs/schema.md of cluster-trace-gpu-v2026.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import Record, parse_json
from lyra_opt.core.errors import InputError, UserError, counted, in_file
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.numbers import HOUR_MS
from lyra_opt.instances.rows import MILLISECONDS, NO_VALUE, Row, moment_ms
from lyra_opt.instances.snapshots.reading import read_file
from lyra_opt.instances.snapshots.snapshot import (
    GPU,
    GPU_THOUSANDTHS,
    MOST_PODS,
    Owner,
    PendingGang,
    PendingPods,
    RunningGang,
    RunningPod,
    Snapshot,
    SnapshotNode,
)
from lyra_opt.instances.workloads.philly import moment_of, records_of, text_of

WHOLE = 1000
"""The amount of a whole GPU in records, which count thousandths."""

ALWAYS_MS = 0, 2**62
"""The start and the end of a record that lasts until the end of the log."""

RACK = "rack"
"""The label with the rack of a node."""


@dataclass(frozen=True, slots=True)
class LogServer:
    """A server with its GPUs; `rack` and `gpu_type` are empty if the log does not name them."""

    name: str
    gpus: int
    rack: str = ""
    gpu_type: str = ""
    span_ms: tuple[int, int] = ALWAYS_MS


@dataclass(frozen=True, slots=True)
class LogWorkers:
    """Workers of a job that hold GPUs or wait for them.

    Parameters
    ----------
    span_ms
        The moment from which they do so, and the one before which they do, in milliseconds.
    gpus
        Thousandths of GPUs of each worker.
    server
        The server that one worker is on; empty if `count` workers wait.
    left_out
        Why the row is left out, to complete "3 records ..."; empty if it is not.
    """

    job: str
    gpus: int
    span_ms: tuple[int, int]
    queue: str = "default"
    count: int = 1
    worker: str = ""
    server: str = ""
    priority: int = 0
    left_out: str = ""


LogRecord: TypeAlias = LogServer | LogWorkers


class LogTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One table of a layout; see ``placement_tables.toml``."""

    columns: dict[str, str]
    order: tuple[str, ...] = ()

    def names(self, header: Sequence[str]) -> bool:
        """Return whether the first row of a file names the columns of this table."""
        return {*self.columns.values()} <= {*header}


class LogLayout(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The layout of a log; see ``placement_tables.toml``."""

    title: str
    needed: tuple[str, ...]
    tables: dict[str, LogTable]
    gangs: tuple[str, ...] = ()
    priorities: dict[str, int] = {}
    ended: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()


@cache
def log_layouts() -> dict[str, LogLayout]:
    """Return the layouts of placement logs by name."""
    declared = files("lyra_opt.instances.snapshots") / "placement_tables.toml"
    return msgspec.toml.decode(declared.read_text(encoding="utf-8"), type=dict[str, LogLayout])


@dataclass(frozen=True, slots=True)
class _LogRow(Row):
    """A row whose fields are read by their names in a layout; `names` are their columns."""

    names: Mapping[str, str]

    def text(self, column: str) -> str:
        """Return a field; "" without a column or a value."""
        text = Row.text(self, column) if column in self.columns else ""
        return "" if text.lower() in NO_VALUE else text

    def error(self, column: str, rule: str) -> InputError:
        places = {self.names[column]: self.columns[column]}
        return Row(self.source, self.number, places, self.values).error(self.names[column], rule)

    def ms(self, field: str) -> int | None:
        return self.milliseconds(field) if self.text(field) else None

    def amount(self, field: str) -> int:
        """Return a field in thousandths; 0 without a value."""
        return self.thousandths(field) if self.text(field) else 0

    def span_ms(self) -> tuple[int, int] | None:
        """Return the hour of a row, or its start and end; None if one of them is not known."""
        if "hour" in self.columns:
            start_ms = (24 * self.count("day") + self.count("hour")) * HOUR_MS
            return start_ms, start_ms + HOUR_MS
        start, end = self.ms("start"), self.ms("end")
        if end is None and self.text("state") == "Running":
            end = ALWAYS_MS[1]
        return None if start is None or end is None else (start, end)


def _first_row(source: str, text: str) -> list[str]:
    return [name.strip() for name in next(csv_rows(source, text), [])]


def _rows(source: str, text: str, table: LogTable) -> Iterator[_LogRow]:
    header = _first_row(source, text)
    is_header = table.names(header)
    order = header if is_header else table.order
    places = {field: order.index(column) for field, column in table.columns.items()}
    for number, values in enumerate(csv_rows(source, text), start=1):
        if values and number > is_header:
            row = _LogRow(source, number, places, values, table.columns)
            row.require_width(len(header), "row 1")
            yield row


def _table_records(layout: LogLayout, given: Mapping[str, tuple[str, str]]) -> Iterator[LogRecord]:
    """Yield the records of the tables of a log, each a pair of file name and text."""

    def rows_of(part: str) -> Iterable[_LogRow]:
        is_table = part in given and part in layout.tables
        return _rows(*given[part], layout.tables[part]) if is_table else ()

    submitted = {
        row.text("job"): (row.ms("submitted"), row.text("queue") or "default")
        for row in rows_of("jobs")
    }
    gpus_of: dict[tuple[str, str], int] = {}
    for row in rows_of("requests"):
        job, start_ms = row.text("job"), row.ms("start")
        # 1 % of a GPU is ten thousandths of it; a part of a thousandth counts as a whole one.
        gpus = gpus_of[job, row.text("task")] = -(-row.amount("percent") // 100)
        since_ms, queue = submitted.get(job, (None, "default"))
        if gpus and since_ms is not None and start_ms is not None:
            if (count := row.count("count")) > MOST_PODS:
                raise row.error("count", f"must be at most {MOST_PODS}")
            yield LogWorkers(job, gpus, (since_ms, start_ms), queue, count)
    servers = set()
    for row in rows_of("servers"):
        name, span_ms = row.required("server"), row.span_ms() or ALWAYS_MS
        servers.add(name)
        yield LogServer(name, row.count("gpus"), row.text("rack"), row.text("type"), span_ms)
    for row in rows_of("workers"):
        yield _worker(layout, row, gpus_of, servers, submitted)


def _worker(
    layout: LogLayout,
    row: _LogRow,
    gpus_of: Mapping[tuple[str, str], int],
    servers: set[str],
    submitted: Mapping[str, tuple[int | None, str]],
) -> LogWorkers:
    """Return the record of a row of the table of workers."""
    span_ms, state, server = row.span_ms(), row.text("state"), row.text("server")
    job = row.text("job") if not layout.gangs or row.text("kind") in layout.gangs else ""
    is_planned = "gpus" not in row.columns
    gpus = gpus_of.get((job, row.text("task"))) if is_planned else row.amount("gpus")
    reasons = (
        (span_ms is None, "without a start or an end"),
        (state in layout.ended, f"in state {' or '.join(layout.ended)}"),
        (gpus is None, "of a task that is not in the table of tasks"),
        (not gpus, "without GPUs"),
        (
            server not in servers and (server or state != "Pending"),
            "on a server that is not in the table of servers",
        ),
    )
    left_out = next((reason for is_so, reason in reasons if is_so), "")
    name = row.text("priority")
    if layout.priorities and name not in layout.priorities and not left_out:
        raise row.error("priority", f"must be {' or '.join(layout.priorities)}")
    return LogWorkers(
        job=job or row.text("worker"),
        gpus=gpus or 0,
        span_ms=span_ms or ALWAYS_MS,
        queue=submitted.get(job, (None, "default"))[1],
        worker=row.text("worker"),
        server=server,
        priority=layout.priorities.get(name, 0),
        left_out=left_out,
    )


def _philly_records(source: str, text: str) -> Iterator[LogRecord]:
    """Yield the records of Philly's ``cluster_job_log``, a JSON list.

    A job runs during each attempt. It waits from its submission, and from the end of each attempt,
    until the next attempt starts. The last attempt of a job without an end is still running.
    """
    seen: dict[str, set[str]] = defaultdict(set)
    ids: Counter[str] = Counter()
    with in_file(source):
        for number, entry in enumerate(parse_json(text, source)):
            record = Record(entry, f"[{number}]", entry)
            name, queue = text_of(record, "jobid"), text_of(record, "vc")
            ids[name] += 1
            job = name if ids[name] == 1 else f"{name}#{ids[name]}"
            since = moment_of(record, "submitted_time")
            attempts = list(records_of(record, "attempts"))
            for attempt in attempts:
                start, end = moment_of(attempt, "start_time"), moment_of(attempt, "end_time")
                held = Counter[str]()
                for each in records_of(attempt, "detail"):
                    gpus = [str(gpu) for _, gpu in each.items_of("gpus")]
                    seen[text_of(each, "ip")].update(gpus)
                    held[text_of(each, "ip")] += len(gpus)
                if end is None and attempt is attempts[-1]:
                    end = ALWAYS_MS[1]
                if start is None or end is None:
                    yield LogWorkers(job, 0, ALWAYS_MS, left_out="without a start or an end")
                    continue
                if since is not None and held.total():
                    # On which servers it will run is not known yet: its GPUs need not be together.
                    yield LogWorkers(job, WHOLE, (since, start), queue, held.total())
                since = end
                for server, count in held.items():
                    worker = f"{job}@{server}"
                    span_ms = start, end
                    yield LogWorkers(job, WHOLE * count, span_ms, queue, 1, worker, server)
    yield from (LogServer(name, len(gpus)) for name, gpus in seen.items())


def read_moments(paths: Iterable[str | Path], at: Sequence[str]) -> list[Snapshot]:
    """Return the state of a cluster at some moments of a placement log.

    Parameters
    ----------
    paths
        The files of one log, plain or compressed, in any order.
    at
        The moments: a date and time, or seconds on the clock of the log.

    Raises
    ------
    InputError
        If a file cannot be read, is not a table of a known log, or a value breaks its rule.
    UserError
        If a moment is not valid or given twice, or no worker runs then.

    Notes
    -----
    Takes O(rows * moments) time. A worker that ends at a moment has left, and one that starts then
    is there.
    """
    moments: dict[str, int] = {}
    for text in at:
        if (moment := _moment(text)) in moments.values():
            raise UserError(f"--at {text}: is given twice; give each moment once")
        moments[text] = moment
    layout, records = _records((file.source, file.content) for file in map(read_file, paths))
    kept: dict[str, list[LogRecord]] = {text: [] for text in at}
    first_ms, last_ms = ALWAYS_MS[1], 0
    for record in records:
        start_ms, end_ms = record.span_ms
        for text, moment in moments.items():
            if start_ms <= moment < end_ms:
                kept[text].append(record)
        if _runs(record):
            first_ms, last_ms = min(first_ms, start_ms), max(last_ms, start_ms)
    for text, found in kept.items():
        if not any(map(_runs, found)):
            rule = f"no worker runs then; workers start from {first_ms / MILLISECONDS:,.0f} s"
            raise UserError(f"--at {text}: {rule} to {last_ms / MILLISECONDS:,.0f} s")
    return [_snapshot(layout, found, moments[text]) for text, found in kept.items()]


def _runs(record: LogRecord) -> bool:
    return isinstance(record, LogWorkers) and bool(record.server) and not record.left_out


def _moment(text: str) -> int:
    if text.replace(".", "", 1).isdecimal() and len(text) < 15:
        return round(float(text) * MILLISECONDS)
    rule = "must be seconds, or a date and time such as 2017-10-09 12:00:00"
    return moment_ms(text, lambda: UserError(f"--at {text}: {rule}"))


def _records(given: Iterable[tuple[str, bytes]]) -> tuple[LogLayout, Iterator[LogRecord]]:
    """Return the layout of the files of a log, and its records."""
    parts: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for source, content in given:
        text = content.decode("utf-8", "replace")
        name, part = _part_of(source, text)
        if part in parts[name]:
            raise InputError(source, f"is the second table of {part}; give each table once")
        parts[name][part] = source, text
    if len(parts) != 1:
        raise UserError("the files are of several logs; give the files of one log")
    ((name, of),) = parts.items()
    layout = log_layouts()[name]
    if missing := [part for part in layout.needed if part not in of]:
        sources = ", ".join(source for source, _ in of.values())
        raise InputError(sources, f"the table of {missing[0]} of {layout.title} is missing")
    tables = _table_records(layout, of)
    is_json = "workers" not in layout.tables
    return layout, chain(tables, _philly_records(*of["workers"]) if is_json else ())


def _part_of(source: str, text: str) -> tuple[str, str]:
    """Return the names of the layout and of its table to which a file belongs."""
    if text.lstrip()[:1] == "[":
        return "philly", "workers"
    header, layouts = _first_row(source, text), log_layouts()
    tables = [
        ((table.names(header), len(table.order) == len(header) > 0), name, part)
        for name, layout in layouts.items()
        for part, table in layout.tables.items()
    ]
    fits, name, part = max(tables, key=itemgetter(0))
    if not any(fits):
        known = "; ".join(layout.title for layout in layouts.values())
        raise InputError(source, f"is not part of a known placement log. Known are {known}")
    return name, part


def _snapshot(layout: LogLayout, records: Sequence[LogRecord], moment: int) -> Snapshot:
    """Return the snapshot of the records that hold at a moment."""
    running: dict[str, list[LogWorkers]] = defaultdict(list)
    pending: dict[str, list[LogWorkers]] = defaultdict(list)
    used, left_out = Counter[str](), Counter[str]()
    servers: dict[str, LogServer] = {}
    unit, gpu = WHOLE, GPU
    for record in records:
        if isinstance(record, LogServer):
            servers.setdefault(record.name, record)
        elif record.left_out:
            left_out[record.left_out] += 1
        else:
            (running if record.server else pending)[record.job].append(record)
            used[record.server] += record.gpus
            if record.gpus % WHOLE:
                unit, gpu = 1, GPU_THOUSANDTHS
    assumptions = list(layout.assumptions)
    if not layout.priorities:
        rule = "a waiting job may preempt every running job"
        assumptions.append(f"The log has no priorities: {rule}.")
    if crowded := [each.name for each in servers.values() if used[each.name] > WHOLE * each.gpus]:
        assumptions.append(
            f"{counted(len(crowded), 'server')} with workers for more GPUs than it has, such as "
            f"{crowded[0]}: it has as many as they need."
        )
    if left_out:
        rows = [
            f"{counted(count, 'record')} {reason}" for reason, count in sorted(left_out.items())
        ]
        assumptions.append(f"Left out: {'; '.join(rows)}.")

    def amount(thousandths: int) -> FrozenDict[str, int]:
        return FrozenDict({gpu: thousandths // unit})

    nodes = [
        SnapshotNode(
            name=each.name,
            capacity=amount(max(WHOLE * each.gpus, used[each.name])),
            labels=FrozenDict({RACK: each.rack} if each.rack else {}),
            gpu_type=each.gpu_type,
        )
        for each in servers.values()
    ]
    gangs = []
    for job, of in running.items():
        pods = [
            RunningPod(name=each.worker, node=each.server, request=amount(each.gpus)) for each in of
        ]
        start_s = max(each.span_ms[0] for each in of) / MILLISECONDS
        gangs.append(RunningGang(pods=tuple(pods), start_s=start_s, **_of_job(job, of)))
    waiting = []
    for job, of in pending.items():
        if job not in running:
            shapes = [
                PendingPods(
                    names=tuple(f"{job}-{place}-{pod}" for pod in range(each.count)),
                    request=amount(each.gpus),
                )
                for place, each in enumerate(of)
            ]
            since_s = min(each.span_ms[0] for each in of) / MILLISECONDS
            waiting.append(PendingGang(shapes=tuple(shapes), since_s=since_s, **_of_job(job, of)))
    return Snapshot(
        system="placement log",
        version=layout.title,
        nodes=tuple(nodes),
        gangs=tuple(gangs),
        pending=tuple(waiting),
        assumptions=tuple(assumptions),
        newest_s=moment / MILLISECONDS,
    )


def _of_job(job: str, workers: Sequence[LogWorkers]) -> dict[str, Any]:
    """Return the settings that running and pending gangs share."""
    return {
        "id": job,
        "owner": Owner(kind="Job", name=job),
        "min_pods": sum(each.count for each in workers),
        "priority": workers[0].priority,
        "queue": workers[0].queue,
    }
