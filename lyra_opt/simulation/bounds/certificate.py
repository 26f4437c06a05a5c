"""Prices as a file: whoever has the jobs and the cluster can check what they prove."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.documents import read_json_object, require_format
from lyra_opt.core.errors import FieldError, InputError
from lyra_opt.core.fields import key, parsed
from lyra_opt.core.rules import Integer, ListOf, Number, Text
from lyra_opt.simulation.bounds.checker import Checker
from lyra_opt.simulation.bounds.scope import ALL, JOB_CLASSES, Reading, weights_of
from lyra_opt.simulation.bounds.ways import priced_jobs
from lyra_opt.simulation.bounds.whole import PRICE_UNIT, Certificate

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lyra_opt.simulation.cluster import LoanPlan
    from lyra_opt.simulation.speed import Speed
    from lyra_opt.simulation.workload import Workload

CERTIFICATE_FORMAT = "lyra-opt/cluster-bound"
CERTIFICATE_VERSION = 1
JCT, QUEUE = "jct_mean", "queue_mean"

LATEST_S = 1e15
"""Up to which prices may stand: beyond, floats hold no fractions of seconds."""


@dataclass(frozen=True, kw_only=True)
class CertificateTable:
    """The whole file."""

    format: str = key(Text((CERTIFICATE_FORMAT,)), "of the file")
    version: int = key(Integer(CERTIFICATE_VERSION, CERTIFICATE_VERSION), "of the format")
    reading: str = key(Text(tuple(each.value for each in Reading)), "what schedules may do")
    objective: str = key(Text((JCT, QUEUE)), "what is bounded")
    job_class: str = key(Text(tuple(JOB_CLASSES)), "of which jobs the mean is", ALL)
    jobs: int = key(Integer(1), "how many")
    value_s: float = key(Number(), "no schedule has a smaller mean")
    cell_s: float = key(Number(above=True), "how long a price stands, from the first submission on")
    price: tuple[tuple[int, ...], ...] = key(
        ListOf(ListOf(Integer(0))),
        "of a GPU-second in each cell, by pool, in parts of 2^20 of a second of waiting; 0 after "
        "the last",
    )

    def __post_init__(self) -> None:
        for place, row in enumerate(self.price):
            if len(row) != len(self.price[0]):
                rule = f"must have as many cells as the first, {len(self.price[0])}"
                raise FieldError(f"price[{place}]", len(row), rule)
        if self.cell_s * len(self.price[0]) > LATEST_S:
            rule = f"must be so long that all cells end by {LATEST_S:g} s"
            raise FieldError("cell_s", self.cell_s, rule)


def document_of(
    certificate: Certificate, *, reading: Reading, objective: str, jobs: int, job_class: str = ALL
) -> dict[str, Any]:
    """Return a certificate as a document."""
    return {
        "format": CERTIFICATE_FORMAT,
        "version": CERTIFICATE_VERSION,
        "reading": reading.value,
        "objective": objective,
        "job_class": job_class,
        "jobs": jobs,
        "value_s": certificate.value_s,
        "cell_s": float(certificate.border_s[1] - certificate.border_s[0]),
        "price": np.rint(certificate.price / PRICE_UNIT).astype(np.int64).tolist(),
    }


def read_certificate(path: str | Path) -> CertificateTable:
    """Return the certificate of a file; `InputError` with file and field if it is none."""
    try:
        document = read_json_object(path)
        require_format(document, CERTIFICATE_FORMAT, CERTIFICATE_VERSION)
        return parsed(CertificateTable, document)
    except FieldError as error:
        raise InputError(str(path), str(error)) from None


def proved_mean_s(
    table: CertificateTable,
    workload: Workload,
    speed: Speed,
    *,
    plan: LoanPlan | None,
    copy_efficiency: Sequence[float] | None = None,
) -> float:
    """Return what the prices of a certificate prove of a workload, rounded down.

    In exact arithmetic, by a checker that shares no code with what made the prices but for the ways
    in which jobs may run (`lyra_opt.simulation.bounds.ways`).

    Parameters
    ----------
    table
        The certificate.
    workload, speed, plan, copy_efficiency
        As of `lyra_opt.simulation.bounds.whole.whole_bound`.

    Raises
    ------
    FieldError
        If it is one of another number of jobs, of pools, or of a class that no job is of.
    """
    cluster = speed.cluster
    if len(workload.jobs) != table.jobs:
        raise FieldError("jobs", table.jobs, f"must be that of the workload, {len(workload.jobs)}")
    if len(table.price) != len(cluster.pools):
        rule = f"must have a row for each of the {len(cluster.pools)} pools"
        raise FieldError("price", len(table.price), rule)
    weight = weights_of(workload, table.job_class)
    price = np.array(table.price) * PRICE_UNIT
    border_s = np.arange(price.shape[1] + 1) * table.cell_s
    jobs = priced_jobs(
        workload,
        speed,
        reading=Reading(table.reading),
        borrows=plan is not None,
        copy_efficiency=copy_efficiency,
        weight=weight,
        border_s=border_s,
    )
    checker = Checker(jobs, border_s.tolist(), price.tolist(), is_queue=table.objective == QUEUE)
    proved = checker.proved(cluster, plan) / sum(map(Fraction, weight.tolist()))
    return max(0.0, float(np.nextafter(float(proved), -np.inf)))


def holds(table: CertificateTable, proved_s: float) -> bool:
    """Whether a certificate claims no more than its prices prove."""
    return table.value_s <= proved_s
