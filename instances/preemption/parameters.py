"""The parameters of the preemption families; the command line is built from them."""

from dataclasses import dataclass
from typing import Any

from lyra_opt.instances.parameters import choice, integer, percent

MOST = 16_000
"""The largest number of nodes; so many nodes have less than 2^53 bytes of memory in all."""

TRAPS = (
    *("gang-blind", "safe-bundle", "safe-first", "youngest-first", "few-nodes-first"),
    *("whole-gangs", "fewest-pods", "prefix", "gpu-blind"),
)
"""The traps of family ``rule-trap``; `lyra_opt.instances.preemption.traps` explains each."""

RECORDINGS = (
    *("kube-pods", "kube-gang", "slurm"),
    *("kube-pods-later", "kube-gang-later", "slurm-later"),
)
"""The bundled recordings; those named ``later`` were made after the imitations were written."""


def _nodes(meaning: str, **others: Any) -> Any:
    return integer(f"number of {meaning}", 1, MOST, **others)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionParameters:
    """The parameters of a preemption family; parameters that a family does not use are defaults.

    ``nodes`` is 0 if ``scale`` sets the size. ``moves`` is None for the default of the family.
    ``trap`` and ``recording`` are None in other families.
    """

    nodes: int = _nodes("nodes, with 8 GPUs each", absent=0)
    occupancy_percent: int = percent("GPUs that running gangs hold, in %", default=95)
    rack_nodes: int = _nodes("nodes per rack", default=18)
    mix: str = choice(
        "distribution of job sizes; trace: 65 % have 1 GPU", ("trace", "dist"), default="trace"
    )
    scattered_percent: int = percent(
        "gangs on random nodes, not packed into racks, in %", default=0
    )
    split_percent: int = percent(
        "jobs with several GPUs that run as pods of 1 or 2 GPUs, in %", default=30
    )
    protected_percent: int = percent("protected gangs, in %", default=0)
    resources: str = choice("resources of pods", ("gpu", "gpu-cpu-memory"), default="gpu")
    pods: int = integer("number of pending pods", 1, 10_000, default=8)
    pod_gpus: int = integer("GPUs per pending pod", 1, 8, default=8)
    shapes: int = integer("shapes of pods; the second has half the pods and GPUs", 1, 2, default=1)
    priority: int = integer("pending gang's priority; running gangs: 1 to 3", 1, 4, default=3)
    level: str = choice(
        "pods' domain", ("none", "rack", "block", "prefer-rack", "prefer-block"), default="none"
    )
    moves: str | None = choice(
        "gangs that may move pods; only: no pod is lost", ("none", "victims", "any", "only")
    )
    objective: str = choice(
        "what is minimised first", ("gangs", "gpus", "pods", "disruptions"), default="gangs"
    )
    drained_nodes: int = _nodes("nodes to empty", absent=0, metavar="K", family="drain")
    drained: str = choice(
        "selection of nodes to empty", ("random", "chosen"), default="random", family="drain"
    )
    open_nodes: int = _nodes("nodes without a protected pod", absent=0, family="protected-pod")
    trap: str | None = choice("trap", TRAPS, family="rule-trap")
    scale: int = integer("size of the instance", 1, 100, default=1, metavar="K")
    recording: str | None = choice(
        "recorded decisions, numbered by --seed", RECORDINGS, family="recorded"
    )
