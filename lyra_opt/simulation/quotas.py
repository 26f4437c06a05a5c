"""Quotas of tenants from shares, or from what the tenants request."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.tenants import Quota, Quotas

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.simulation.workload import Workload

EQUALLY, BY_REQUEST = DIVISIONS = ("equally", "by-request")
"""The ways to divide the GPUs of a cluster among tenants."""


def whole_shares(gpus: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Return the whole numbers nearest to a division of `gpus` GPUs by weights, not all 0.

    Numbers are rounded down, and what is left goes to the largest remainders (Hamilton's method).

    >>> whole_shares(10, {"a": 1.0, "b": 1.0, "c": 1.0})
    {'a': 4, 'b': 3, 'c': 3}
    """
    whole = math.fsum(weights.values())
    exact = {name: gpus * weight / whole for name, weight in weights.items()}
    found = {name: int(share) for name, share in exact.items()}
    by_rest = sorted(exact, key=lambda name: found[name] - exact[name])
    for name in by_rest[: gpus - sum(found.values())]:
        found[name] += 1
    return found


def divided(workload: Workload, gpus: int, division: str, *, limit: float | None = None) -> Quotas:
    """Return quotas that divide the own GPUs of a cluster among the tenants of a workload.

    Parameters
    ----------
    gpus
        The own GPUs of the cluster.
    division
        ``equally``, or ``by-request`` for shares of the requested GPU time.
    limit
        Most GPUs of a tenant as a multiple of its quota; None for no limit.

    Returns
    -------
    Quotas
        One quota for each tenant, in the order of names. A tenant whose largest job is larger than
        its share gets the GPUs of that job, and the others divide the rest.

    Raises
    ------
    FieldError
        If a job names no tenant, or the largest jobs of the tenants need more GPUs than there are.
    """
    weights: dict[str, float] = {}
    largest: dict[str, int] = {}
    for job in sorted(workload.jobs, key=lambda job: job.tenant or ""):
        if job.tenant is None:
            raise FieldError("divide", division, f"needs tenants, but job {job.id} names none")
        requested_gpu_s = job.work_worker_s * job.gpus_per_worker
        weights[job.tenant] = weights.get(job.tenant, 0.0) + requested_gpu_s
        largest[job.tenant] = max(largest.get(job.tenant, 0), job.min_gpus)
    if sum(largest.values()) > gpus:
        rule = (
            f"needs {sum(largest.values())} GPUs for the largest job of each tenant, but the "
            f"cluster has {gpus}"
        )
        raise FieldError("divide", division, rule)
    if division == EQUALLY:
        weights = dict.fromkeys(weights, 1.0)
    fixed: dict[str, int] = {}
    while True:
        others = {name: weight for name, weight in weights.items() if name not in fixed}
        shares = whole_shares(gpus - sum(fixed.values()), others) if others else {}
        small = {name: largest[name] for name, share in shares.items() if share < largest[name]}
        if not small:
            break
        fixed |= small
    found = shares | fixed
    return Quotas(
        quotas=tuple(
            Quota(name=name, gpus=found[name], most_gpus=most_of(found[name], limit))
            for name in weights
        )
    )


def most_of(gpus: int, limit: float | None) -> int | None:
    """Return the most GPUs of a tenant with a quota, by a multiple of it; None for no limit."""
    return None if limit is None else int(limit * gpus)
