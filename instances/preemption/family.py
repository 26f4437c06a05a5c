"""The base class of the preemption families: what is asked of a fleet, and the instance's name."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.preemption.parameters import PreemptionParameters
from lyra_opt.preemption.instance import GPU, Demand, Gang, PodGroup, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GPUS_PER_NODE = 8

OBJECTIVES: Mapping[str, tuple[str, ...] | None] = {
    "gangs": None,
    "gpus": ("unplaced", f"lost:{GPU}", "moved_pods", "extra_domains"),
    "pods": ("unplaced", "lost_pods_by_priority", f"lost:{GPU}", "moved_pods", "extra_domains"),
    "disruptions": ("unplaced", "disrupted_pods_by_priority", f"lost:{GPU}", "extra_domains"),
}
"""The terms of each objective of the families; None for the default of instances."""

LABELS = {
    "nodes": "n",
    "occupancy_percent": "busy",
    "pod_gpus": "of",
    "drained_nodes": "k",
    "scale": "k",
    "trap": "",
    "level": "",
    "drained": "",
    "blocked": "",
}
"""Labels of parameters in the names of instances; other labels are the parameters' own names."""

CPU_PER_GPU, MEMORY_PER_GPU = 12_000, 48 * 2**30
"""CPU in milli-CPUs and memory in bytes that pending pods request for each GPU."""

_UNFIT_FOR_FILE_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class PreemptionFamily(ParameterisedFamily):
    """Base class of the families that generate preemption instances."""

    problem = "preemption"
    parameters = PreemptionParameters
    shown_always: ClassVar[tuple[str, ...]] = ()
    """Parameters that are part of every instance name."""

    def _name(self, parameters: PreemptionParameters, seed: int) -> str:
        """Return the name of an instance, with the parameters that differ from their defaults."""
        parts = [f"{self.name}-v{self.version}"]
        for each in fields(parameters):
            value = getattr(parameters, each.name)
            if each.name in self.shown_always or value != each.default:
                label = LABELS.get(each.name, each.name.removesuffix("_percent"))
                text = Path(value).name.partition(".")[0] if each.name == "trace" else str(value)
                parts.append(f"{label}{'-' if label and isinstance(value, str) else ''}{text}")
        name = "-".join([*parts, f"seed{seed}"] if self.is_drawn else parts)
        return _UNFIT_FOR_FILE_NAMES.sub("_", name.replace("_", "-"))


def demand_of(parameters: PreemptionParameters) -> Demand:
    """Return the pending gang that the parameters describe."""
    counts = {"worker": (parameters.pods, parameters.pod_gpus)}
    if parameters.shapes == 2:
        counts["helper"] = -(-parameters.pods // 2), max(1, parameters.pod_gpus // 2)
    level = parameters.level.removeprefix("prefer-")
    return Demand(
        priority=parameters.priority,
        shapes=[
            Shape(id=name, count=pods, request=_request(parameters, gpus))
            for name, (pods, gpus) in counts.items()
        ],
        level=None if level == "none" else level,
        is_level_required=level == parameters.level,
    )


def _request(parameters: PreemptionParameters, gpus: int) -> dict[str, int]:
    if parameters.resources == "gpu":
        return {GPU: gpus}
    return {GPU: gpus, "cpu": CPU_PER_GPU * gpus, "memory": MEMORY_PER_GPU * gpus}


def gang_on(
    name: str, pods: Iterable[tuple[str, int, int]], priority: int = 1, **others: Any
) -> Gang:
    """Return a gang whose pods are given as node, number of pods and GPUs of each pod."""
    groups = [PodGroup(node=node, count=count, request={GPU: gpus}) for node, count, gpus in pods]
    return Gang(id=name, priority=priority, pods=groups, **others)
