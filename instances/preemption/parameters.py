"""The parameters of the preemption families; the command line is built from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.instances.parameters import choice, file, integer

if TYPE_CHECKING:
    from pathlib import Path

LARGEST_FLEET = 16_000
"""The largest number of nodes; so many nodes have less than 2^53 bytes of memory in all."""

TRAPS = (
    "gang-blind",
    "safe-bundle",
    "safe-first",
    "first-domain",
    "youngest-first",
    "few-nodes-first",
    "whole-gangs",
    "fewest-pods",
    "prefix",
    "cpu-blocker",
)
"""The traps of family ``rule-trap``; `lyra_opt.instances.preemption.traps` explains each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionParameters:
    """The parameters of a preemption family; parameters that it does not use have their defaults.

    ``nodes`` is 0 if ``scale`` sets the size. ``moves`` and ``victims`` are None for the default of
    the family and of the instance.
    """

    nodes: int = integer("number of nodes, with 8 GPUs each", 1, LARGEST_FLEET, absent=0)
    occupancy_percent: int = integer(
        "GPUs that running gangs hold, in %", 10, 99, default=95, metavar="P"
    )
    rack_nodes: int = integer("nodes per rack", 1, LARGEST_FLEET, default=18)
    block_racks: int = integer("racks per block", 1, LARGEST_FLEET, default=8)
    mix: str = choice(
        "sizes of the jobs: 65 % with one GPU, or many wide jobs",
        ("trace", "dist"),
        default="trace",
    )
    trace: str | Path | None = file("job trace whose sizes, weighted by run time, replace the mix")
    scattered_percent: int = integer(
        "gangs whose pods are placed on random nodes, in %; the others are packed into racks",
        0,
        100,
        default=0,
        metavar="P",
    )
    split_percent: int = integer(
        "jobs with several GPUs that run as pods of 1 or 2 GPUs, in %",
        0,
        100,
        default=30,
        metavar="P",
    )
    elastic_percent: int = integer(
        "gangs of several pods that may shrink to half of them, in %",
        0,
        100,
        default=35,
        metavar="P",
    )
    protected_percent: int = integer("protected gangs, in %", 0, 100, default=0, metavar="P")
    resources: str = choice("resources of nodes and pods", ("gpu", "gpu-cpu-memory"), default="gpu")
    pods: int = integer("number of pending pods", 1, 10_000, default=8)
    pod_gpus: int = integer("GPUs per pending pod", 1, 8, default=8)
    shapes: int = integer(
        "shapes of pending pods; 2 adds half as many pods with half the GPUs", 1, 2, default=1
    )
    priority: int = integer(
        "priority of the pending gang; running gangs have priorities 1 to 3", 1, 4, default=3
    )
    level: str = choice(
        "domains at which the pending pods must, or should, be together",
        ("none", "rack", "block", "prefer-rack", "prefer-block"),
        default="none",
    )
    moves: str | None = choice(
        "which gangs may move pods (default none; family drain: any)", ("none", "victims", "any")
    )
    victims: str | None = choice(
        "which gangs may lose pods (default lower, or any without pending pods)",
        ("lower", "lower-or-equal", "any", "none"),
    )
    objective: str = choice(
        "what counts first: lost gangs by priority, lost GPUs, or lost or disrupted pods by "
        "priority",
        ("gangs", "gpus", "pods", "disruptions"),
        default="gangs",
    )
    drained_nodes: int = integer(
        "number of nodes to empty", 1, LARGEST_FLEET, default=1, metavar="K"
    )
    drained: str = choice(
        "the nodes to empty: random ones, neighbours, or chosen by the solution",
        ("random", "neighbours", "chosen"),
        default="random",
        family="drain",
    )
    open_nodes: int = integer(
        "number of nodes without a protected pod", 1, 1_000, default=4, family="protected-pod"
    )
    trap: str = choice(
        "the rule to mislead",
        TRAPS,
        default=TRAPS[0],
        family="rule-trap",
    )
    scale: int = integer("size of the instance", 1, 100, default=1, metavar="K")
    blocked: str = choice(
        "racks that are one GPU short",
        ("every", "all-but-last"),
        default="every",
        family="one-short",
    )
