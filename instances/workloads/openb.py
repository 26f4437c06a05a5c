"""Alibaba's GPU trace of 2023: pods, with the share of a GPU and the types that they ask for.

Source: alibaba/clusterdata, cluster-trace-gpu-v2023, ``openb_pod_list_*.csv``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.instances.traces import TraceJob, parse_gpu_types
from lyra_opt.instances.workloads.layout import NO_GPUS, NOT_ENDED
from lyra_opt.instances.workloads.tables import TableLayout

if TYPE_CHECKING:
    from lyra_opt.instances.workloads.layout import Row

CREATED, SCHEDULED, DELETED = "creation_time", "scheduled_time", "deletion_time"

WHOLE_GPU = 1000
"""Of ``gpu_milli``."""

SHARE = "Pods that ask for a share of a GPU are given a whole one"


def _pod(row: Row) -> TraceJob | str:
    name, gpus, created_ms = row.job_id("name"), row.count("num_gpu"), row.milliseconds(CREATED)
    if row.count("gpu_milli") > WHOLE_GPU:
        raise row.error("gpu_milli", f"must be an integer from 0 to {WHOLE_GPU}")
    gpu_types: tuple[str, ...] = ()
    if row.has("gpu_spec"):
        text = row.text("gpu_spec")
        gpu_types = parse_gpu_types(row.source, row.number, "gpu_spec", text)
    if not gpus:
        return NO_GPUS
    if not (row.has(SCHEDULED) and row.has(DELETED)):
        return NOT_ENDED
    run_ms = row.milliseconds(DELETED) - row.milliseconds(SCHEDULED)
    if run_ms < 0:
        raise row.error(DELETED, f"must not be before {SCHEDULED}")
    return TraceJob(name, created_ms, run_ms, gpus, gpu_types=gpu_types)


def _share(row: Row) -> str | None:
    return SHARE if row.count("gpu_milli") < WHOLE_GPU else None


OPENB = TableLayout(
    "Alibaba 2023 openb_pod_list_*.csv",
    ("name", "num_gpu", "gpu_milli", "gpu_spec", CREATED, SCHEDULED, DELETED),
    _pod,
    remarks=(
        "Pods are kept whatever phase they were seen in last, and hold their GPUs from scheduling "
        "to deletion; what they ask of processors and memory is passed over.",
    ),
    note=_share,
)
