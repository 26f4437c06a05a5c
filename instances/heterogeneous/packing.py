"""Which of an instance's jobs may share GPUs: as a table says, or drawn by seed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_choice
from lyra_opt.heterogeneous.packing import PackedRate
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.heterogeneous.instance import Instance
    from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
    from lyra_opt.simulation.cluster import GpuType

VERSION = 1
"""Goes up when a seed gives other rates."""

PACKINGS = NO, DRAWN, MEASURED = "no", "drawn", "measured"
LEAST_PERCENT = 30


def with_packing(
    instance: Instance,
    packing: str,
    table: ThroughputTable,
    gpu_types: Sequence[GpuType],
    *,
    seed: int,
) -> Instance:
    """Return an instance of shares of time in which two gangs of a size may share GPUs.

    Parameters
    ----------
    packing
        ``no``; ``measured``, as the table says; or ``drawn``: jobs of equal gangs and rates are of
        a kind, and one has 30 to 100 % of its rate beside one of another kind or its own, each per
        cent as likely, on each type of GPUs anew.
    table
        Of which the jobs were made.
    gpu_types
        Those of the cluster.
    seed
        Of the draws.

    Raises
    ------
    FieldError
        If there is no such packing, or nothing measured.
    """
    require_choice("packing", packing, PACKINGS)
    if packing == NO:
        return instance
    if packing == MEASURED:
        if not table.packed:
            rule = f"must be drawn or no: table {table.name} has no rates of two kinds at once"
            raise FieldError("packing", packing, rule)
        return replace(instance, packed=table.packed_rates(instance.jobs, gpu_types))
    kind_of: dict[object, str] = {}
    jobs = tuple(
        replace(
            job, kind=kind_of.setdefault((job.gang, *job.throughput.items()), f"{len(kind_of)}")
        )
        for job in instance.jobs
    )
    stream = IntegerStream(workload="packing", version=VERSION, seed=seed)
    firsts = {job.kind: job for job in reversed(jobs)}
    kinds = [firsts[kind] for kind in kind_of.values()]
    packed = tuple(
        PackedRate(
            kind=str(job.kind),
            beside=str(other.kind),
            throughput={
                name: rate * stream.between(LEAST_PERCENT, 100) / 100
                for name, rate in job.throughput.items()
            },
        )
        for job in kinds
        for other in kinds
        if job.gang == other.gang
    )
    return replace(instance, jobs=jobs, packed=packed)
