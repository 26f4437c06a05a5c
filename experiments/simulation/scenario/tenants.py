"""Build the quotas of tenants that a scenario states."""

import math
from collections.abc import Mapping
from dataclasses import replace

from lyra_opt.core.documents import join_path, unknown_key
from lyra_opt.core.errors import FieldError
from lyra_opt.core.rules import located
from lyra_opt.experiments.simulation.scenario.keys import QuotaTable, TenantsTable
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.quotas import (
    BY_REQUEST,
    EQUALLY,
    Quota,
    Quotas,
    divided,
    most_of,
    whole_shares,
)
from lyra_opt.simulation.workload import Workload

PATH = "cluster.tenants"


def with_quotas(cluster: Cluster, table: TenantsTable, workload: Workload) -> Cluster:
    """Return a cluster with the quotas of a scenario for the tenants of a workload.

    Raises
    ------
    FieldError
        If groups are unknown or in a circle, or members have more than their group.
    """
    with located(PATH):
        if table.divide is not None:
            quotas = divided(workload, cluster.gpus, table.divide, limit=table.limit)
        else:
            quotas = _stated(table, cluster.gpus)
    assumptions = (*cluster.assumptions, _in_words(table, quotas))
    with located("cluster"):
        return replace(cluster, tenants=quotas, assumptions=assumptions)


def _stated(table: TenantsTable, gpus: int) -> Quotas:
    """Return the quotas that a scenario states by name, groups before their members."""
    left = dict(table.quotas)
    found: dict[str | None, int] = {None: gpus}
    ordered: list[Quota] = []
    for name, entry in left.items():
        if entry.group is not None and entry.group not in table.quotas:
            rule = unknown_key(entry.group, list(table.quotas), noun="group")
            raise FieldError(join_path(f"quotas.{name}", "group"), entry.group, rule)
    while left:
        groups = {entry.group for entry in left.values() if entry.group in found}
        if not groups:
            name = next(iter(left))
            raise FieldError(f"quotas.{name}.group", left[name].group, "must not be in a circle")
        for group in groups:
            members = {name: each for name, each in left.items() if each.group == group}
            found.update(_gpus_of(members, found[group]))
            for name, entry in members.items():
                most = entry.most_gpus
                if most is None:
                    most = most_of(found[name], table.limit)
                ordered.append(
                    Quota(name=name, gpus=found[name], most_gpus=most, group=entry.group)
                )
                del left[name]
    return Quotas(quotas=tuple(ordered))


def _gpus_of(members: Mapping[str, QuotaTable], gpus: int) -> dict[str, int]:
    """Return the GPUs of the members of one group, in whole GPUs."""
    found = {name: each.gpus for name, each in members.items() if each.gpus is not None}
    shares = {name: each.share for name, each in members.items() if each.share is not None}
    if shares:
        whole = math.fsum(shares.values())
        if whole > 1 + 1e-9:
            name = max(shares, key=lambda each: shares[each])
            rule = f"the shares of its group must add up to at most 1, not {whole:g}"
            raise FieldError(f"quotas.{name}.share", shares[name], rule)
        found |= whole_shares(int(whole * gpus + 1e-9), shares)
    return found


def _in_words(table: TenantsTable, quotas: Quotas) -> str:
    """Return a sentence on the quotas."""
    stated = ", ".join(
        f"{quota.name} {quota.gpus}" for quota in quotas.quotas if quota.name in quotas.tenants
    )
    how = {
        None: "as stated",
        EQUALLY: "equal, and at least the largest job of each tenant",
        BY_REQUEST: "in proportion to the GPU time that the tenants request, and at least the "
        "largest job of each tenant",
    }[table.divide]
    return f"Quotas of tenants, {how} (GPUs): {stated}."
