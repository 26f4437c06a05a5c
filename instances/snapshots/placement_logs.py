"""Read published logs of placements: on which servers the workers of jobs ran, and when.

A moment of such a log is a `Snapshot`: its nodes are the servers, its running gangs the jobs that
ran, its pending gangs the jobs that waited. All logs become the same records first: `LogServer`,
`Placed` and `Waiting`. ``placement_tables.toml`` declares the columns of the logs that are CSV
tables; `philly_records` reads Philly's JSON log.

Sources: the README files of msr-fiddle/philly-traces and alibaba/clusterdata
(cluster-trace-gpu-v2020), and docs/schema.md of cluster-trace-gpu-v2026.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import Record, parse_json
from lyra_opt.core.errors import InputError, UserError, counted, in_file, show_value
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.instances.rows import MILLISECONDS, Row, moment_ms
from lyra_opt.instances.snapshots.reading import read_file
from lyra_opt.instances.snapshots.snapshot import (
    GPU,
    GPU_THOUSANDTHS,
    Owner,
    PendingGang,
    PendingPods,
    RunningGang,
    RunningPod,
    Snapshot,
    SnapshotNode,
)
from lyra_opt.instances.workloads.philly import moment_of, records_of, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

WHOLE = 1000
"""The amount of a whole GPU in records, which count thousandths."""

HOUR_MS = 3_600_000
ALWAYS_MS = 2**62
"""The end of a record that lasts until the end of the log."""

RACK = "rack"
"""The label with the rack of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServer:
    """A server with its GPUs; `rack` and `gpu_type` are empty if the log does not name them."""

    name: str
    gpus: int
    rack: str = ""
    gpu_type: str = ""
    start_ms: int = 0
    end_ms: int = ALWAYS_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A worker on a server, from `start_ms` until before `end_ms`; `gpus` are thousandths."""

    job: str
    worker: str
    server: str
    gpus: int
    start_ms: int
    end_ms: int
    priority: int = 0
    queue: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """`count` workers of a job that wait, each for `gpus` thousandths of GPUs."""

    job: str
    count: int
    gpus: int
    start_ms: int
    end_ms: int
    priority: int = 0
    queue: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A row that is left out, with the reason; the reason completes "3 records ..."."""

    reason: str
    start_ms: int = 0
    end_ms: int = ALWAYS_MS


LogRecord: TypeAlias = LogServer | Placed | Waiting | LeftOut


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
    hours: bool = False
    gangs: tuple[str, ...] = ()
    priorities: dict[str, int] = {}
    ended: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    workers: LogTable | None = None
    servers: LogTable
    requests: LogTable | None = None
    jobs: LogTable | None = None


PARTS = ("jobs", "requests", "servers", "workers")
"""The tables of a layout, in the order in which they are read."""


@cache
def log_layouts() -> dict[str, LogLayout]:
    """Return the layouts of placement logs by name."""
    declared = files("lyra_opt.instances.snapshots") / "placement_tables.toml"
    return msgspec.toml.decode(declared.read_text(encoding="utf-8"), type=dict[str, LogLayout])


@dataclass(frozen=True, slots=True)
class _Fields:
    """A row whose fields are read by their names in a layout."""

    row: Row
    columns: Mapping[str, str]

    def text(self, field: str) -> str:
        """Return a field; "" without a column or a value."""
        column = self.columns.get(field, "")
        return self.row.text(column) if column and self.row.has(column) else ""

    def ms(self, field: str) -> int | None:
        return self.row.milliseconds(self.columns[field]) if self.text(field) else None

    def count(self, field: str) -> int:
        return self.row.count(self.columns[field])

    def span_ms(self) -> tuple[int, int]:
        """Return the beginning and the end of the hour of a row; always, without an hour."""
        if "hour" not in self.columns:
            return 0, ALWAYS_MS
        start = (24 * self.count("day") + self.count("hour")) * HOUR_MS
        return start, start + HOUR_MS


def _rows(source: str, text: str, table: LogTable) -> Iterator[_Fields]:
    rows = csv_rows(source, text)
    header = [name.strip() for name in next(rows, [])]
    is_header = table.names(header)
    places = {name: place for place, name in enumerate(header if is_header else table.order)}
    for number, values in enumerate(csv_rows(source, text), start=1):
        if values and not (is_header and number == 1):
            row = Row(source, number, places, values)
            row.require_width(len(header), "row 1")
            yield _Fields(row, table.columns)


def _table_records(layout: LogLayout, given: Mapping[str, tuple[str, str]]) -> Iterator[LogRecord]:
    """Yield the records of the tables of a log, each a pair of file name and text."""

    def rows_of(part: str) -> Iterator[_Fields]:
        if part in given:
            yield from _rows(*given[part], getattr(layout, part))

    submitted = {
        each.text("job"): (each.ms("submitted"), each.text("queue")) for each in rows_of("jobs")
    }
    gpus_of: dict[tuple[str, str], int] = {}
    for each in rows_of("requests"):
        job = each.text("job")
        gpus = -(-(each.ms("percent") or 0) // 100)
        gpus_of[job, each.text("task")] = gpus
        since_ms, queue = submitted.get(job, (None, ""))
        start_ms = each.ms("start")
        if gpus and since_ms is not None and start_ms is not None:
            count = each.count("count")
            yield Waiting(
                job=job,
                count=count,
                gpus=gpus,
                start_ms=since_ms,
                end_ms=start_ms,
                queue=queue or "default",
            )
    known = set()
    for each in rows_of("servers"):
        start_ms, end_ms = each.span_ms()
        known.add(each.text("server"))
        yield LogServer(
            name=each.row.required(each.columns["server"]),
            gpus=each.count("gpus"),
            rack=each.text("rack"),
            gpu_type=each.text("type"),
            start_ms=start_ms,
            end_ms=end_ms,
        )
    for each in rows_of("workers"):
        yield _worker(layout, each, gpus_of, known, submitted)


def _worker(
    layout: LogLayout,
    fields: _Fields,
    gpus_of: Mapping[tuple[str, str], int],
    known: set[str],
    submitted: Mapping[str, tuple[int | None, str]],
) -> LogRecord:
    """Return the record of a row of the table of workers."""
    job, worker, state = (fields.text(name) for name in ("job", "worker", "state"))
    start: int | None
    end: int | None
    if layout.hours:
        start, end = fields.span_ms()
    else:
        start, end = fields.ms("start"), fields.ms("end")
        end = ALWAYS_MS if end is None and state == "Running" else end
        if start is None or end is None:
            return LeftOut(reason="without a start or an end")
    span: dict[str, Any] = {"start_ms": start, "end_ms": end}
    if state in layout.ended:
        return LeftOut(reason=f"in state {' or '.join(layout.ended)}", **span)
    if layout.gangs and fields.text("kind") not in layout.gangs:
        job = ""
    if "gpus" in fields.columns:
        gpus = fields.ms("gpus") or 0
    elif (job, fields.text("task")) in gpus_of:
        gpus = gpus_of[job, fields.text("task")]
    else:
        return LeftOut(reason="of a task that is not in the table of tasks", **span)
    if not gpus:
        return LeftOut(reason="without GPUs", **span)
    priority = 0
    if layout.priorities:
        column = fields.columns["priority"]
        if (name := fields.text("priority")) not in layout.priorities:
            raise fields.row.error(column, f"must be {' or '.join(layout.priorities)}")
        priority = layout.priorities[name]
    common: dict[str, Any] = {
        "job": job or worker,
        "gpus": gpus,
        "priority": priority,
        "queue": submitted.get(job, (None, ""))[1] or "default",
        **span,
    }
    server = fields.text("server")
    if not server and state == "Pending":
        return Waiting(count=1, **common)
    if server not in known:
        return LeftOut(reason="on a server that is not in the table of servers", **span)
    return Placed(worker=worker, server=server, **common)


def philly_records(document: object, machines: Iterable[LogServer] = ()) -> Iterator[LogRecord]:
    """Yield the records of Philly's ``cluster_job_log``, a decoded JSON list.

    A job runs during each attempt. It waits from its submission, and from the end of each attempt,
    until the next attempt starts. The last attempt of a job without an end is still running.
    """
    if not isinstance(document, list):
        raise ValueError(f"must be a JSON list, not {show_value(document)}")
    seen: dict[str, set[str]] = defaultdict(set)
    ids: Counter[str] = Counter()
    for number, entry in enumerate(document):
        record = Record(entry, f"[{number}]", entry)
        name, queue = text_of(record, "jobid"), text_of(record, "vc")
        ids[name] += 1
        job = name if ids[name] == 1 else f"{name}#{ids[name]}"
        since_ms = moment_of(record, "submitted_time")
        attempts = list(records_of(record, "attempts"))
        for attempt in attempts:
            start, end = moment_of(attempt, "start_time"), moment_of(attempt, "end_time")
            placed = [
                (text_of(each, "ip"), [str(gpu) for _, gpu in each.items_of("gpus")])
                for each in records_of(attempt, "detail")
            ]
            for server, gpus in placed:
                seen[server].update(gpus)
            if end is None and attempt is attempts[-1]:
                end = ALWAYS_MS
            if start is None or end is None:
                yield LeftOut(reason="without a start or an end")
                continue
            held = Counter[str]()
            for server, gpus in placed:
                held[server] += len(gpus)
            if since_ms is not None and held.total():
                yield Waiting(
                    job=job,
                    count=1,
                    gpus=WHOLE * held.total(),
                    start_ms=since_ms,
                    end_ms=start,
                    queue=queue,
                )
            since_ms = end
            for server, count in held.items():
                yield Placed(
                    job=job,
                    worker=f"{job}@{server}",
                    server=server,
                    gpus=WHOLE * count,
                    start_ms=start,
                    end_ms=end,
                    queue=queue,
                )
    listed = {each.name: each.gpus for each in machines}
    for name in {**listed, **seen}:
        yield LogServer(name=name, gpus=listed.get(name, len(seen[name])))


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
        If a moment is not valid, or no worker runs then.

    Notes
    -----
    Takes O(rows * moments) time. A worker that ends at a moment has left, and one that starts then
    is there.
    """
    moments = {text: _moment(text) for text in at}
    layout, records = _records([(file.source, file.content) for file in map(read_file, paths)])
    kept: dict[str, list[LogRecord]] = {text: [] for text in at}
    first_ms, last_ms = ALWAYS_MS, 0
    for record in records:
        for text, moment in moments.items():
            if record.start_ms <= moment < record.end_ms:
                kept[text].append(record)
        if isinstance(record, Placed):
            first_ms, last_ms = min(first_ms, record.start_ms), max(last_ms, record.start_ms)
    for text, found in kept.items():
        if not any(isinstance(record, Placed) for record in found):
            rule = f"no worker runs then; workers start from {first_ms / MILLISECONDS:,.0f} s"
            raise UserError(f"--at {text}: {rule} to {last_ms / MILLISECONDS:,.0f} s")
    return [_snapshot(layout, found, moments[text]) for text, found in kept.items()]


def _moment(text: str) -> int:
    def error() -> UserError:
        rule = "must be seconds, or a date and time such as 2017-10-09 12:00:00"
        return UserError(f"--at {text}: {rule}")

    if text.replace(".", "", 1).isdecimal() and len(text) < 15:
        return round(float(text) * MILLISECONDS)
    return moment_ms(text, error)


def _records(given: list[tuple[str, bytes]]) -> tuple[LogLayout, Iterator[LogRecord]]:
    """Return the layout of the files of a log, and its records."""
    texts = [(source, content.decode("utf-8", "replace")) for source, content in given]
    logs = [file for file in texts if file[1].lstrip()[:1] == "["]
    tables = [file for file in texts if file not in logs]
    parts: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for source, text in tables:
        header = [name.strip() for name in next(csv_rows(source, text), [])]
        name, part = _table_of(source, header)
        if part in parts[name]:
            raise InputError(source, f"is the second table of {part}; give each table once")
        parts[name][part] = source, text
    if logs:
        parts["philly"]["workers"] = logs[0]
    if len(logs) > 1 or len(parts) != 1:
        raise UserError("the files are of several logs; give the files of one log")
    ((name, of),) = parts.items()
    layout = log_layouts()[name]
    if missing := [part for part in PARTS if part not in of and _is_needed(layout, part)]:
        sources = ", ".join(source for source, _ in given)
        raise InputError(sources, f"the table of {missing[0]} of {layout.title} is missing")
    if not logs:
        return layout, _table_records(layout, of)
    machines = [
        each
        for each in _table_records(layout, {k: v for k, v in of.items() if k == "servers"})
        if isinstance(each, LogServer)
    ]
    return layout, _philly(*logs[0], machines)


def _philly(source: str, text: str, machines: list[LogServer]) -> Iterator[LogRecord]:
    with in_file(source):
        yield from philly_records(parse_json(text, source), machines)


def _is_needed(layout: LogLayout, part: str) -> bool:
    if layout.workers is None:  # Philly's log has the workers
        return part == "workers"
    return part != "jobs" and getattr(layout, part) is not None


def _table_of(source: str, header: Sequence[str]) -> tuple[str, str]:
    """Return the names of the layout and of its table that fit the first row of a file."""
    tables = {
        (name, part): getattr(layout, part)
        for name, layout in log_layouts().items()
        for part in PARTS
        if getattr(layout, part) is not None
    }
    for found, table in tables.items():
        if table.names(header):
            return found
    for found, table in tables.items():
        if len(table.order) == len(header):
            return found
    known = "; ".join(layout.title for layout in log_layouts().values())
    raise InputError(source, f"is not part of a known placement log. Known are {known}")


def _snapshot(layout: LogLayout, records: Sequence[LogRecord], moment: int) -> Snapshot:
    """Return the snapshot of the records that hold at a moment."""
    running: dict[str, list[Placed]] = defaultdict(list)
    pending: dict[str, list[Waiting]] = defaultdict(list)
    used: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    servers = {}
    for record in records:
        if isinstance(record, Placed):
            running[record.job].append(record)
            used[record.server] += record.gpus
        elif isinstance(record, Waiting):
            pending[record.job].append(record)
        elif isinstance(record, LogServer):
            servers[record.name] = record
        else:
            left_out[record.reason] += 1
    has_parts = any(each.gpus % WHOLE for each in records if isinstance(each, Placed | Waiting))
    unit, gpu = (1, GPU_THOUSANDTHS) if has_parts else (WHOLE, GPU)
    crowded = [each.name for each in servers.values() if used[each.name] > WHOLE * each.gpus]
    assumptions = list(layout.assumptions)
    if not layout.priorities:
        assumptions.append(
            "The log has no priorities: a waiting job may preempt every running job."
        )
    if crowded:
        assumptions.append(
            f"{counted(len(crowded), 'server')} with workers for more GPUs than it has, such as "
            f"{crowded[0]}: it has as many as they need."
        )
    rows = [f"{counted(count, 'record')} {reason}" for reason, count in sorted(left_out.items())]
    if rows:
        assumptions.append(f"Left out: {'; '.join(rows)}.")
    return Snapshot(
        system="placement log",
        version=layout.title,
        nodes=tuple(
            SnapshotNode(
                name=each.name,
                capacity=FrozenDict({gpu: max(WHOLE * each.gpus, used[each.name]) // unit}),
                labels=FrozenDict({RACK: each.rack} if each.rack else {}),
                gpu_type=each.gpu_type,
            )
            for each in servers.values()
        ),
        gangs=tuple(
            RunningGang(
                id=job,
                owner=Owner(kind="Job", name=job),
                pods=tuple(
                    RunningPod(
                        name=each.worker,
                        node=each.server,
                        request=FrozenDict({gpu: each.gpus // unit}),
                    )
                    for each in workers
                ),
                min_pods=len(workers),
                priority=workers[0].priority,
                queue=workers[0].queue,
                start_s=max(each.start_ms for each in workers) / MILLISECONDS,
            )
            for job, workers in running.items()
        ),
        pending=tuple(
            PendingGang(
                id=job,
                owner=Owner(kind="Job", name=job),
                shapes=tuple(
                    PendingPods(
                        names=tuple(f"{job}-{place}-{pod}" for pod in range(each.count)),
                        request=FrozenDict({gpu: each.gpus // unit}),
                    )
                    for place, each in enumerate(waiting)
                ),
                min_pods=sum(each.count for each in waiting),
                priority=waiting[0].priority,
                queue=waiting[0].queue,
                since_s=min(each.start_ms for each in waiting) / MILLISECONDS,
            )
            for job, waiting in pending.items()
            if job not in running
        ),
        assumptions=tuple(assumptions),
        newest_s=moment / MILLISECONDS,
    )
