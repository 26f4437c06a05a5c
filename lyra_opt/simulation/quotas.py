"""Quotas of the tenants of a cluster: stated, as shares, or by what the tenants request.

A tenant is a user, team or virtual cluster that submits jobs. Its quota is the number of own GPUs
to which it is entitled. Tenants can belong to groups, such as the teams of a department, and a
group has a quota too. A tenant *borrows* the GPUs that it holds above its quota.

Source: the cohorts of Kueue, from its documentation, for quotas, borrowing limits and trees.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.rules import require_integer, require_text
from lyra_opt.simulation.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The quota of a tenant, or of a group of tenants.

    Parameters
    ----------
    name
        The name of the tenant or group, unique in the cluster.
    gpus
        Number of own GPUs of the cluster to which it is entitled, at least 0.
    most_gpus
        Most own GPUs that it may hold, including borrowed ones, at least `gpus`; None for no limit.
    group
        Name of the group to which it belongs; None if it belongs to none.
    """

    name: str
    gpus: int
    most_gpus: int | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_integer("gpus", self.gpus, minimum=0)
        if self.most_gpus is not None:
            require_integer("most_gpus", self.most_gpus, minimum=self.gpus)


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The quotas of all tenants of a cluster, in one level or as a tree.

    Parameters
    ----------
    quotas
        The quota of each group and each tenant; a group comes before its members. Whatever has no
        members is a tenant.

    Raises
    ------
    FieldError
        If two names are equal, a group is unknown, or members have more GPUs than their group.
    """

    quotas: tuple[Quota, ...]

    def __post_init__(self) -> None:
        seen: dict[str, int] = {}
        for place, quota in enumerate(self.quotas):
            path = f"quotas[{place}]"
            if quota.name in seen:
                raise FieldError(f"{path}.name", quota.name, "must not occur twice")
            if quota.group is not None:
                if quota.group not in seen:
                    rule = "must be the name of a group that comes before its members"
                    raise FieldError(f"{path}.group", quota.group, rule)
                seen[quota.group] -= quota.gpus
                if seen[quota.group] < 0:
                    rule = f"the members of {quota.group} must not have more GPUs than the group"
                    raise FieldError(f"quotas.{quota.name}", quota.gpus, rule)
            seen[quota.name] = quota.gpus

    @cached_property
    def position(self) -> dict[str, int]:
        """The position of each tenant or group in `quotas`, by name."""
        return {quota.name: place for place, quota in enumerate(self.quotas)}

    @cached_property
    def tenants(self) -> dict[str, int]:
        """The position of each tenant in `quotas`, by name; groups are left out."""
        groups = {quota.group for quota in self.quotas}
        return {name: place for name, place in self.position.items() if name not in groups}

    @cached_property
    def paths(self) -> tuple[tuple[int, ...], ...]:
        """For each quota, the positions of itself, its group, the group of that, and so on."""
        paths: list[tuple[int, ...]] = []
        for place, quota in enumerate(self.quotas):
            above = () if quota.group is None else paths[self.position[quota.group]]
            paths.append((place, *above))
        return tuple(paths)

    @property
    def gpus(self) -> int:
        """The GPUs of all quotas that belong to no group."""
        return sum(quota.gpus for quota in self.quotas if quota.group is None)

    def tenant_of(self, name: str | None, job: str) -> int:
        """Return the position of a job's tenant.

        Raises
        ------
        UserError
            If the job has no tenant, or one without a quota.
        """
        if name is None:
            raise UserError(
                f"job {job} names no tenant, but the cluster has quotas; use a trace with a column "
                "of tenants, or leave out the quotas"
            )
        place = self.tenants.get(name)
        if place is None:
            rule = unknown_key(name, list(self.tenants), noun="tenant")
            raise UserError(f"job {job} belongs to tenant {name!r}, which has no quota: {rule}")
        return place

    def limits(self, *, borrows: bool) -> list[float]:
        """Return the most own GPUs that each tenant or group may hold, by its groups' limits too.

        Parameters
        ----------
        borrows
            Whether tenants may hold more than their quotas, up to their limits.
        """
        own = [quota.most_gpus if borrows else quota.gpus for quota in self.quotas]
        known = [math.inf if most is None else most for most in own]
        return [min(known[place] for place in path) for path in self.paths]


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
