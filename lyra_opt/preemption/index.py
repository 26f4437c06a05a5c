"""The arrays of a preemption instance that algorithms use; the checker does not read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Instance: TypeAlias = Any  # its module imports this one

Integers = np.ndarray
"""An array of int64."""
Flags = np.ndarray
"""An array of bool."""

NO_DOMAIN = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreemptionIndex:
    """An instance as read-only arrays over N nodes, R resources, G gangs, K pod groups, S shapes.

    Nodes, gangs, pod groups and shapes are numbered in file order; the pod groups of a gang are
    consecutive.

    Parameters
    ----------
    capacity, free
        Amount of each resource that the node has, and that no pod holds, (N, R).
    may_use
        Whether pending or moved pods may come to the node, which is usable and does not have to be
        empty, (N,).
    must_be_empty, can_be_chosen_empty
        Whether the node must be emptied, and whether it can be one of `empty_nodes`, (N,).
    domain
        Number of the node's domain at the level of the demand, (N,); -1 for a node without a
        domain. Without a level, it is 0 for all nodes.
    domains
        Number of domains.
    first_group
        Position of the first pod group of each gang, (G + 1,); the last entry is K.
    group_gang, group_node, group_count
        Gang, node and number of pods of each pod group, (K,).
    group_request
        Amount of each resource that one pod holds, (K, R).
    size, min_pods, priority, weight
        Number of pods, number of pods that must remain, priority and cost of each gang, (G,).
    start_s
        Start time of each gang in seconds, (G,), floats.
    may_lose, may_move
        Whether the gang may lose pods, and whether its pods may move, (G,).
    shape_count, shape_min, shape_per_node
        Number of pending pods, number that must be placed, and largest number on one node, (S,).
    shape_request
        Amount of each resource that one pending pod requests, (S, R).
    shape_allowed
        Whether the demand allows the shape on the node, apart from its capacity, (S, N).
    """

    capacity: Integers
    free: Integers
    may_use: Flags
    must_be_empty: Flags
    can_be_chosen_empty: Flags
    domain: Integers
    domains: int
    first_group: Integers
    group_gang: Integers
    group_node: Integers
    group_count: Integers
    group_request: Integers
    size: Integers
    min_pods: Integers
    priority: Integers
    weight: Integers
    start_s: np.ndarray
    may_lose: Flags
    may_move: Flags
    shape_count: Integers
    shape_min: Integers
    shape_per_node: Integers
    shape_request: Integers
    shape_allowed: Flags

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @classmethod
    def of(cls, instance: Instance) -> PreemptionIndex:
        """Build the arrays in time linear in the size of the instance."""
        nodes, gangs = instance.nodes, instance.gangs
        shapes = instance.demand.shapes if instance.demand else ()
        column = {name: r for r, name in enumerate(instance.resources)}
        groups = [(g, group) for g, gang in enumerate(gangs) for group in gang.pods]
        position = instance.node_position
        group_node = _integers([position[group.node] for _, group in groups])
        group_count = _integers([group.count for _, group in groups])
        group_request = _amounts([group.request for _, group in groups], column)
        capacity = _amounts([node.capacity for node in nodes], column)
        free = capacity.copy()
        np.subtract.at(free, group_node, group_request * group_count[:, None])
        level = None if instance.demand is None else instance.demand.level
        domain_number: dict[str, int] = {}
        domain = [
            0
            if level is None
            else NO_DOMAIN
            if level not in node.domains
            else domain_number.setdefault(node.domains[level], len(domain_number))
            for node in nodes
        ]
        return cls(
            capacity=capacity,
            free=free,
            may_use=_flags([node.is_usable and not node.must_be_empty for node in nodes]),
            must_be_empty=_flags([node.must_be_empty for node in nodes]),
            can_be_chosen_empty=_flags([instance.can_be_chosen_empty(node) for node in nodes]),
            domain=_integers(domain),
            domains=1 if level is None else len(domain_number),
            first_group=np.concatenate(
                ([0], np.cumsum([len(gang.pods) for gang in gangs], dtype=np.int64))
            ).astype(np.int64),
            group_gang=_integers([g for g, _ in groups]),
            group_node=group_node,
            group_count=group_count,
            group_request=group_request,
            size=_integers([gang.size for gang in gangs]),
            min_pods=_integers([gang.min_pods for gang in gangs]),
            priority=_integers([gang.priority for gang in gangs]),
            weight=_integers([gang.weight for gang in gangs]),
            start_s=np.array([gang.start_s for gang in gangs], dtype=np.float64),
            may_lose=_flags([instance.may_lose_pods(gang) for gang in gangs]),
            may_move=_flags([instance.may_move_pods(gang) for gang in gangs]),
            shape_count=_integers([shape.count for shape in shapes]),
            shape_min=_integers([shape.min_count for shape in shapes]),
            shape_per_node=_integers(
                [min(shape.max_per_node or shape.count, shape.count) for shape in shapes]
            ),
            shape_request=_amounts([shape.request for shape in shapes], column),
            shape_allowed=np.array(
                [[instance.can_place(shape, node) for node in nodes] for shape in shapes],
                dtype=bool,
            ).reshape(len(shapes), len(nodes)),
        )


def _integers(values: list[int]) -> Integers:
    return np.array(values, dtype=np.int64)


def _flags(values: list[bool]) -> Flags:
    return np.array(values, dtype=bool)


def _amounts(tables: list[Any], column: dict[str, int]) -> Integers:
    """Return one row of amounts per table, with one column per resource."""
    found = np.zeros((len(tables), len(column)), dtype=np.int64)
    for row, table in enumerate(tables):
        for name, amount in table.items():
            found[row, column[name]] = amount
    return found
