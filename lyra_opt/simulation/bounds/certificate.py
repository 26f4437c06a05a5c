"""Certificate files, whose GPU prices prove a lower bound on the mean JCT or queuing time."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from lyra_opt.core.documents import read_json_object, require_format
from lyra_opt.core.errors import FieldError, in_file
from lyra_opt.core.fields import key, parsed
from lyra_opt.core.rules import Integer, ListOf, Number, Text
from lyra_opt.simulation.bounds.checker import Checker
from lyra_opt.simulation.bounds.execution_modes import priced_jobs
from lyra_opt.simulation.bounds.scope import ALL, JOB_CLASSES, Reading, weights_of
from lyra_opt.simulation.bounds.whole import PRICE_UNIT, Certificate
from lyra_opt.simulation.cluster import LoanPlan
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.workload import Workload

CERTIFICATE_FORMAT = "lyra-opt/cluster-bound"
CERTIFICATE_VERSION = 1
JCT, QUEUE = "jct_mean", "queue_mean"

LATEST_S = 1e15
"""Latest time with a price; beyond it, floats cannot represent fractions of a second."""


@dataclass(frozen=True, kw_only=True)
class CertificateTable:
    """The fields of a certificate file: a claimed lower bound, and the GPU prices that prove it."""

    format: str = key(Text((CERTIFICATE_FORMAT,)), "format of the file")
    version: int = key(Integer(CERTIFICATE_VERSION, CERTIFICATE_VERSION), "version of the format")
    reading: str = key(
        Text(tuple(each.value for each in Reading)), "whether preempted jobs lose their work"
    )
    objective: str = key(Text((JCT, QUEUE)), "mean that is bounded")
    job_class: str = key(Text(tuple(JOB_CLASSES)), "class of jobs that the mean includes", ALL)
    jobs: int = key(Integer(1), "number of jobs in the workload")
    value_s: float = key(Number(), "the bound: no schedule has a smaller mean, in seconds")
    cell_s: float = key(Number(above=True), "seconds for which a price is constant (a cell)")
    price: tuple[tuple[int, ...], ...] = key(
        ListOf(ListOf(Integer(0))),
        "price of a GPU-second by pool and cell, from the first submission on, in units of 2^-20 "
        "seconds of waiting; 0 after the last cell",
    )

    def __post_init__(self) -> None:
        for place, row in enumerate(self.price):
            if len(row) != len(self.price[0]):
                rule = f"must have as many cells as price[0], {len(self.price[0])}"
                raise FieldError(f"price[{place}]", len(row), rule)
        if self.cell_s * len(self.price[0]) > LATEST_S:
            rule = f"must be small enough that all cells end by {LATEST_S:g} s"
            raise FieldError("cell_s", self.cell_s, rule)


def document_of(
    certificate: Certificate, *, reading: Reading, objective: str, jobs: int, job_class: str = ALL
) -> dict[str, Any]:
    """Return a certificate as a JSON document."""
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
    """Read a certificate file; raise `InputError`, naming file and field, if it is not valid."""
    with in_file(str(path)):
        document = read_json_object(path)
        require_format(document, CERTIFICATE_FORMAT, CERTIFICATE_VERSION)
        return parsed(CertificateTable, document)


def proved_mean_s(
    table: CertificateTable,
    workload: Workload,
    speed: Speed,
    *,
    plan: LoanPlan | None,
    copy_efficiency: Sequence[float] | None = None,
) -> float:
    """Return the bound on the mean JCT or queuing time, in seconds, that a certificate proves.

    The checker uses exact arithmetic, and the result is rounded down. It shares no code with the
    search for prices, except for the execution modes of jobs
    (`lyra_opt.simulation.bounds.execution_modes`).

    Parameters
    ----------
    table
        The certificate.
    workload, speed, plan, copy_efficiency
        See `lyra_opt.simulation.bounds.whole.whole_bound`.

    Raises
    ------
    FieldError
        If the certificate has another number of jobs or pools, or a class without jobs in the
        workload.
    """
    cluster = speed.cluster
    if len(workload.jobs) != table.jobs:
        rule = f"must be the number of jobs in the workload, {len(workload.jobs)}"
        raise FieldError("jobs", table.jobs, rule)
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
    """Return whether the bound that a certificate claims is at most the proved bound `proved_s`."""
    return table.value_s <= proved_s
