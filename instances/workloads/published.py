"""The published CSV tables whose rows are jobs; ``published_tables.toml`` declares their columns.

Source of the layouts: the README files of S-Lab-System-Group/HeliosData, InternLM/AcmeTrace,
microsoft/elasticflow-traces and alibaba/clusterdata (cluster-trace-gpu-v2020, -v2023 and -v2025,
cluster-trace-v2026-spot-gpu); SymbioticLab/Tiresias, simulator/60_job.csv; petuum/adaptdl, branch
osdi21-artifact.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files

import msgspec

from lyra_opt.core.errors import InputError
from lyra_opt.instances.rows import LARGEST_COUNT, Row
from lyra_opt.instances.traces import TraceJob
from lyra_opt.instances.workloads.layout import NO_GPUS, NOT_ENDED
from lyra_opt.instances.workloads.tables import TableLayout
from lyra_opt.simulation.workload import WHOLE_GPU

DECLARATIONS = "published_tables.toml"

EARLIER = "Jobs that were present before the trace count from its first second"
LATER = "Jobs that had not ended count as ended at the last time in the trace"


class JobColumns(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names of the columns of a job's fields; "" for a field without a column."""

    job_id: str = ""
    submitted: str
    run: str = ""
    started: str = ""
    ended: str = ""
    gpus: str
    workers: str = ""
    gpu_milli: str = ""
    gpu_types: str = ""
    tenant: str = ""
    priority: str = ""
    deadline: str = ""
    no_deadline: str = ""

    @property
    def names(self) -> list[str]:
        """The columns in the file, in the order of the fields."""
        return list(filter(None, msgspec.structs.astuple(self)))


class Declaration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The declaration of a layout; the comments of ``published_tables.toml`` explain the keys."""

    title: str
    columns: JobColumns
    optional: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    is_whole: bool = False
    has_dates: bool = False
    has_parts: bool = False
    is_window: bool = False
    vc: str = "vc"
    priorities: dict[str, int] = {}
    remarks: tuple[str, ...] = ()

    @property
    def layout(self) -> "PublishedTable":
        """The layout that reads files of this kind."""
        return PublishedTable(
            self.title,
            tuple(name for name in self.columns.names if name not in self.optional),
            self.job,
            remarks=self.remarks,
            notes=self.notes,
            marks=self.marks,
            optional=self.optional,
            is_whole=self.is_whole,
            vc=self.vc,
            declared=self,
        )

    def notes(self, row: Row) -> list[str]:
        """Return the assumptions about the job of a row."""
        if not self.is_window:
            return []
        earlier = [] if row.has(self.columns.started) else [EARLIER]
        return earlier + ([] if row.has(self.columns.ended) else [LATER])

    def job(self, row: Row, last_ms: int = 0) -> TraceJob | str:
        """Return the job of a row, or the reason why the row is left out.

        ``last_ms`` is the time at which the trace ends, for a trace that is a window.
        """
        columns = self.columns
        job_id = row.required(columns.job_id) if columns.job_id else f"row-{row.number}"
        gpus, thousandths = self._gpus(row)
        is_earlier = self.is_window and not row.has(columns.submitted)
        submitted_ms = 0 if is_earlier else self._time_ms(row, columns.submitted)
        gpu_types: tuple[str, ...] = ()
        if columns.gpu_types and row.has(columns.gpu_types):
            gpu_types = row.gpu_types(columns.gpu_types)
        deadline_ms = self._deadline_ms(row, submitted_ms)
        priority = self._priority(row)
        if not gpus:
            return NO_GPUS
        run_ms = self._run_ms(row, submitted_ms, last_ms)
        if run_ms is None:
            return NOT_ENDED
        return TraceJob(
            job_id,
            submitted_ms,
            run_ms,
            gpus,
            deadline_ms=deadline_ms,
            gpu_types=gpu_types,
            priority=priority,
            tenant=self._tenant(row),
            gpu_thousandths=thousandths,
        )

    def _time_ms(self, row: Row, column: str) -> int:
        return row.moment(column) if self.has_dates else row.milliseconds(column)

    def _gpus(self, row: Row) -> tuple[int, int | None]:
        """Return the GPUs of a job, and the thousandths of its only GPU if it requests a part."""
        columns = self.columns
        each, workers = WHOLE_GPU, 1
        if columns.gpu_milli and (each := row.count(columns.gpu_milli)) > WHOLE_GPU:
            raise row.error(columns.gpu_milli, f"must be an integer from 0 to {WHOLE_GPU}")
        if self.has_parts:
            each, workers = row.thousandths(columns.gpus), row.count(columns.workers)
            gpus = -(-each * workers // WHOLE_GPU)
        else:
            gpus = row.count(columns.gpus)
        if gpus > LARGEST_COUNT:
            raise row.error(columns.gpus, f"must give a job {LARGEST_COUNT} GPUs at most")
        is_slice = gpus == workers == 1 and 0 < each < WHOLE_GPU
        return gpus, each if is_slice else None

    def _run_ms(self, row: Row, submitted_ms: int, last_ms: int) -> int | None:
        """Return the running time of a job; None if it never ran or had not ended."""
        columns = self.columns
        if columns.run:
            return row.milliseconds(columns.run)
        has_started, has_ended = row.has(columns.started), row.has(columns.ended)
        if not self.is_window and not (has_started and has_ended):
            return None
        started_ms = self._time_ms(row, columns.started) if has_started else submitted_ms
        ended_ms = self._time_ms(row, columns.ended) if has_ended else last_ms
        if ended_ms < started_ms:
            raise row.error(columns.ended, f"must not be before {columns.started}")
        return ended_ms - started_ms

    def _deadline_ms(self, row: Row, submitted_ms: int) -> int | None:
        columns = self.columns
        if not columns.deadline or not row.has(columns.deadline):
            return None
        if columns.no_deadline in row.columns and row.count(columns.no_deadline):
            return None
        deadline_ms = self._time_ms(row, columns.deadline) - submitted_ms
        if deadline_ms <= 0:
            raise row.error(columns.deadline, f"must be after {columns.submitted}")
        return deadline_ms

    def _priority(self, row: Row) -> int:
        column = self.columns.priority
        if not column:
            return 0
        if (value := row.text(column)) not in self.priorities:
            raise row.error(column, f"must be {' or '.join(self.priorities)}")
        return self.priorities[value]

    def _tenant(self, row: Row) -> str | None:
        column = self.columns.tenant
        return row.text(column) or None if column in row.columns else None


@dataclass(frozen=True, kw_only=True)
class PublishedTable(TableLayout):
    """The layout of a published table, built from its declaration."""

    declared: Declaration

    def prepared(
        self, rows: Iterable[Row]
    ) -> tuple[Callable[[Row], TraceJob | str], Iterable[Row]]:
        """Return the function that reads a row; it knows when a trace that is a window ends."""
        if not self.declared.is_window:
            return self.parse, rows
        columns = self.declared.columns
        rows, last_ms = list(rows), 0
        for row in rows:
            for column in (columns.submitted, columns.started, columns.ended):
                try:
                    last_ms = max(last_ms, row.milliseconds(column))
                except (InputError, LookupError):  # empty, or refused when the row is read
                    continue
        return partial(self.declared.job, last_ms=last_ms), rows


@cache
def published_tables() -> dict[str, PublishedTable]:
    """Return the layouts of all published tables by name."""
    text = (files("lyra_opt.instances.workloads") / DECLARATIONS).read_text(encoding="utf-8")
    declared = msgspec.toml.decode(text, type=dict[str, Declaration])
    return {name: each.layout for name, each in declared.items()}
