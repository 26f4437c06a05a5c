"""Parts that the preemption families share: the base class, pending gangs and small gangs."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.preemption.parameters import PreemptionParameters
from lyra_opt.preemption.instance import GPU, Demand, Gang, PodGroup, Shape

GPUS_PER_NODE = 8

OBJECTIVES: Mapping[str, tuple[str, ...] | None] = {
    "gangs": None,
    "gpus": ("unplaced", "lost:gpu", "moved_pods", "extra_domains"),
    "pods": ("unplaced", "lost_pods_by_priority", "lost:gpu", "moved_pods", "extra_domains"),
    "disruptions": ("unplaced", "disrupted_pods_by_priority", "lost:gpu", "extra_domains"),
}
"""The terms of each value of ``--objective``; None is the default objective of instances."""

RESOURCES = {"gpu": (GPU,), "gpu-cpu-memory": (GPU, "cpu", "memory")}

REQUEST = (1, 12_000, 48 * 2**30)
"""Amounts of GPU, CPU (milli-CPUs) and memory (bytes) that a pending pod requests per GPU."""

LABELS = {"nodes": "n", "pod_gpus": "of", "drained_nodes": "k", "scale": "k", "trap": ""}
"""Short names of parameters in the names of instances; other parameters have their own name."""


class PreemptionFamily(ParameterisedFamily):
    """Base class of the families that generate preemption instances."""

    problem = "preemption"
    parameters = PreemptionParameters

    def _name(self, parameters: PreemptionParameters, seed: int) -> str:
        """Return the name of an instance, with the parameters that differ from their defaults."""
        parts = [f"{self.name}-v{self.version}"]
        for each in fields(parameters):
            value: Any = getattr(parameters, each.name)
            if each.name in self.required or value != each.default:
                label = LABELS.get(each.name, each.name.removesuffix("_percent"))
                parts.append(f"{label}{'-' if label and isinstance(value, str) else ''}{value}")
        parts += [f"seed{seed}"] * self.is_drawn
        return "-".join(parts).replace("_", "-")


def demand_of(parameters: PreemptionParameters) -> Demand:
    """Return the pending gang that the parameters describe."""
    gpus = {"worker": parameters.pod_gpus, "helper": max(1, parameters.pod_gpus // 2)}
    counts = {"worker": parameters.pods, "helper": -(-parameters.pods // 2)}
    resources = RESOURCES[parameters.resources]
    level = parameters.level.removeprefix("prefer-")
    return Demand(
        priority=parameters.priority,
        shapes=[
            Shape(
                id=name,
                count=counts[name],
                request={r: gpus[name] * of for r, of in zip(resources, REQUEST, strict=False)},
            )
            for name in list(counts)[: parameters.shapes]
        ],
        level=None if level == "none" else level,
        is_level_required=level == parameters.level,
    )


def gang_on(
    name: str, pods: Iterable[tuple[str, int, int]], priority: int = 1, **others: Any
) -> Gang:
    """Return a gang whose pods are given as node, number of pods and GPUs of each pod."""
    groups = [PodGroup(node=node, count=count, request={GPU: gpus}) for node, count, gpus in pods]
    return Gang(id=name, priority=priority, pods=groups, **others)
