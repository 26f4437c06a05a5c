"""The state of a cluster after some of its nodes are drained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lyra_opt.instances.snapshots.snapshot import Snapshot


def after_drain(
    snapshot: Snapshot, nodes: Collection[str], lost: Mapping[str, Collection[str]]
) -> Snapshot:
    """Return the snapshot with closed nodes, without the pods that their drain takes.

    The costs of a drain and of a later plan add up, term by term: a gang is lost in one of them,
    and a budget allows the later plan what the drain leaves of it. So the best plan for this
    snapshot is also best for the drain and the plan together.

    Parameters
    ----------
    nodes
        Names of the drained nodes.
    lost
        Names of the pods that each gang loses, by gang id.
    """
    remaining = []
    for gang in snapshot.gangs:
        pods = tuple(pod for pod in gang.pods if pod.name not in lost.get(gang.id, ()))
        if pods:
            remaining.append(replace(gang, pods=pods))
    budgets = []
    for budget in snapshot.budgets:
        taken = sum(len(lost.get(name, ())) for name in budget.gangs)
        gangs = tuple(gang.id for gang in remaining if gang.id in budget.gangs)
        budgets.append(replace(budget, gangs=gangs, most=max(0, budget.most - taken)))
    return replace(
        snapshot,
        nodes=tuple(
            replace(node, closed_because="to be drained") if node.name in nodes else node
            for node in snapshot.nodes
        ),
        gangs=tuple(remaining),
        budgets=tuple(budgets),
    )
