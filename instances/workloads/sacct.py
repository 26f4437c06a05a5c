"""The layout of Slurm's accounting log, the output of ``sacct --parsable2``.

``docs/formats/job_trace.md`` has the command with the list of its fields. Source: the manual page
sacct(1) of Slurm 25.11 and src/sacct/sacct.c of SchedMD/slurm for the fields, and the notations of
trackable resources (TRES) in slurm.conf(5).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from lyra_opt.instances.rows import LARGEST_COUNT, LARGEST_SECONDS, MILLISECONDS, NO_VALUE, Row
from lyra_opt.instances.snapshots.slurm_names import generic_resources
from lyra_opt.instances.snapshots.snapshot import GPU
from lyra_opt.instances.traces import TraceJob
from lyra_opt.instances.workloads.layout import NO_GPUS, NOT_ENDED
from lyra_opt.instances.workloads.tables import TableLayout
from lyra_opt.simulation.workload import WHOLE_GPU

COMPLETED = "COMPLETED"
ENDED = frozenset(
    {
        *(COMPLETED, "BOOT_FAIL", "CANCELLED", "DEADLINE", "FAILED"),
        *("NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
    }
)
"""The states of jobs that have ended."""

UNENDED = frozenset({"PENDING", "RESIZING", "REVOKED", "RUNNING", "SUSPENDED"})
"""The states of jobs that wait, that hold GPUs, or that another cluster of a federation runs."""

REQUEUED = "REQUEUED"

STEP = "that are steps of a job with a row of its own"
RUN_BEFORE = "that are runs before a job returned to the queue"
PARTS_OF_GPUS = "with parts of GPUs (shard, mps), whose size sacct does not tell"

OF_FOUR_UNITS = frozenset(
    {f"{units}g.{units * memory}gb" for units in (1, 2, 4) for memory in (6, 24)}
)
"""The MIG profiles of GPUs that are divided into four units instead of seven: A30, RTX PRO 6000."""

ENDED_BADLY = "Jobs that failed, were cancelled or timed out are kept, for as long as they ran"
BOUND = "Jobs that did not request a GPU type may run only on the type that they got"
SEVERAL_TYPES = "The running times of jobs on several GPU types count as times on the reference GPU"
SLICES = "Jobs on several slices of GPUs (MIG) get a whole GPU for each slice"
SEVENTHS = "A MIG slice of n units is n sevenths of a GPU, or n quarters of a GPU with four units"
COMPONENTS = "Components of heterogeneous jobs are jobs of their own"

_MIG = re.compile(r"(\d+)g\.\d+gb")
_ELAPSED = re.compile(r"(?:(\d{1,7})-)?(?:(\d{1,7}):)?(\d{1,7}):(\d{1,7})(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class _Gpus:
    """The GPUs in a text with trackable resources, such as ``cpu=8,gres/gpu:a100=4``.

    Parameters
    ----------
    count
        The number of GPUs, each slice counted as a GPU.
    types
        The types of whole GPUs, in alphabetical order.
    has_slices, has_parts
        Whether there are MIG slices, and whether there are shards or shares by MPS.
    thousandths
        The size of the only slice; None without slices, and for several GPUs or slices.
    """

    count: int
    types: tuple[str, ...]
    has_slices: bool
    has_parts: bool
    thousandths: int | None


@lru_cache(maxsize=2**14)
def _parsed(text: str) -> _Gpus:
    """Return the GPUs in a text, cached because many jobs have the same text.

    Raises
    ------
    ValueError
        If a GPU is not valid, or there are too many.
    """
    parts = text.split(",")
    typed = [part for part in parts if part.startswith("gres/gpu:")]
    whole = [part for part in parts if part.startswith("gres/gpu=")]
    amounts, types = generic_resources(",".join(typed), is_counted=True)
    untyped, _ = generic_resources(",".join(whole), is_counted=True)
    # Slurm may count GPUs of each type beside their sum, or only the sum.
    count = max(sum(amounts.values()), untyped[GPU])
    if count > LARGEST_COUNT:
        raise ValueError(f"must give a job {LARGEST_COUNT} GPUs at most")
    has_slices = sum(amounts.values()) > amounts[GPU]
    return _Gpus(
        count,
        tuple(sorted(types)),
        has_slices,
        any(part.startswith(("gres/shard=", "gres/mps=")) for part in parts),
        _thousandths(typed[0]) if has_slices and count == 1 else None,
    )


def _gpus(row: Row, column: str) -> _Gpus:
    try:
        return _parsed(row.text(column))
    except ValueError as error:
        raise row.error(column, str(error)) from None


def _thousandths(resource: str) -> int | None:
    """Return the size of a MIG slice such as ``gres/gpu:a100_3g.20gb=1``; None for a whole GPU."""
    profile = _MIG.search(resource)
    assert profile is not None, "the resource is a slice"
    thousandths = WHOLE_GPU * int(profile[1]) // (4 if profile[0] in OF_FOUR_UNITS else 7)
    return thousandths if 0 < thousandths < WHOLE_GPU else None


def _state(row: Row) -> str:
    """Return the state of a job, such as CANCELLED for ``CANCELLED by 1000``."""
    state = row.text("State").partition(" ")[0].removesuffix("+")
    if state not in ENDED | UNENDED | {REQUEUED}:
        rule = "must be a state of Slurm such as COMPLETED; use sacct --parsable2"
        raise row.error("State", rule)
    return state


def _job(row: Row) -> TraceJob | str:
    job_id = row.required("JobID")
    if "." in job_id:
        return STEP
    state = _state(row)
    if state == REQUEUED:
        return RUN_BEFORE
    gpus, run_ms = _gpus(row, "AllocTRES"), _elapsed_ms(row)
    if state in UNENDED or not (run_ms or row.text("AllocTRES")):
        return NOT_ENDED
    if not gpus.count:
        return PARTS_OF_GPUS if gpus.has_parts else NO_GPUS
    tenant = row.text("Account") if "Account" in row.columns else ""
    return TraceJob(
        job_id,
        _submitted_ms(row),
        run_ms,
        gpus.count,
        gpu_types=gpus.types,
        tenant=tenant or None,
        gpu_thousandths=gpus.thousandths,
    )


def _submitted_ms(row: Row) -> int:
    """Return the submission in milliseconds since 1970, for dates and for the time format %s."""
    text = row.text("Submit")
    is_seconds = text.isascii() and text.isdigit() and int(text) <= LARGEST_SECONDS
    return int(text) * MILLISECONDS if is_seconds else row.moment("Submit")


def _elapsed_ms(row: Row) -> int:
    """Return the time for which a job ran, without the time for which it was suspended."""
    text = row.text("Elapsed")
    if text.lower() in NO_VALUE:
        return 0
    match = _ELAPSED.fullmatch(text)
    if match is None:
        raise row.error("Elapsed", "must be a time such as 2-03:04:05 (days, then h:min:s)")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return (((24 * days + hours) * 60 + minutes) * 60 + seconds) * MILLISECONDS


def _notes(row: Row) -> Iterator[str]:
    """Yield the assumptions about the job of a row."""
    gpus = _gpus(row, "AllocTRES")
    if _state(row) != COMPLETED:
        yield ENDED_BADLY
    if "+" in row.text("JobID"):
        yield COMPONENTS
    if gpus.has_slices and gpus.count > 1:
        yield SLICES
    if gpus.thousandths is not None:
        yield SEVENTHS
    if len(gpus.types) > 1:
        yield SEVERAL_TYPES
    requested = _gpus(row, "ReqTRES").types if "ReqTRES" in row.columns else ()
    if gpus.types and not set(gpus.types) <= set(requested):
        yield BOUND


SACCT = TableLayout(
    "Slurm's accounting log (sacct --parsable2)",
    ("JobID", "State", "Submit", "Elapsed", "AllocTRES"),
    _job,
    notes=_notes,
    optional=("Account", "ReqTRES"),
    remarks=(
        "The running time of a job is the Elapsed time of its last run, and its account is the "
        "tenant. A job that returned to the queue counts as submitted at that moment, because "
        "Slurm resets its submission.",
    ),
    vc="Partition",
    separator="|",
)
