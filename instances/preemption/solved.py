"""Families with a known optimum: ``rule-trap``, ``one-short`` and ``split-topology``.

Source: this project. Sizes grow with ``--scale``, and nothing is random.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from lyra_opt.core.errors import UserError
from lyra_opt.instances.preemption.family import PreemptionFamily, gang_on
from lyra_opt.instances.preemption.parameters import PreemptionParameters
from lyra_opt.instances.preemption.traps import (
    BUILDERS,
    Solved,
    losing,
    nodes_of,
    numbered,
    pending,
    single_pods,
)
from lyra_opt.preemption.checker import check
from lyra_opt.preemption.instance import Gang, Instance, Solution


class SolvedFamily(PreemptionFamily):
    """Base class of the families with a known optimum."""

    required: ClassVar[tuple[str, ...]] = ("scale",)

    @abstractmethod
    def _solved(self, parameters: PreemptionParameters) -> Solved:
        """Return the parts of the instance, and its optimum."""

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance, which does not depend on the seed."""
        checked: PreemptionParameters = self.check(parameters)
        nodes, gangs, question, _ = self._solved(checked)
        return Instance(name=self._name(checked, seed), nodes=nodes, gangs=gangs, **question)

    def known_optimum(self, parameters: Mapping[str, Any]) -> tuple[Solution, int] | None:
        """Return the optimal solution with its objective; None if no solution is feasible."""
        optimum = self._solved(self.check(parameters)).optimum
        if optimum is None:
            return None
        objective = check(self.generate(parameters, 0), optimum).objective
        assert objective is not None
        return optimum, objective


class RuleTrapFamily(SolvedFamily):
    """Family ``rule-trap``: `lyra_opt.instances.preemption.traps` explains each trap."""

    required = ("trap", "scale")

    def _solved(self, parameters: PreemptionParameters) -> Solved:
        return BUILDERS[str(parameters.trap)](parameters.scale)


class OneShortFamily(SolvedFamily):
    """Family ``one-short``: each rack lacks one GPU, even if all gangs that may be lost are lost.

    As many pods of 8 GPUs are pending as a rack has nodes, and they must be in one rack. In each of
    k + 1 racks, one pod with one GPU has the priority of the pending gang and must stay. A gang of
    7 pods with priority 1 fills the rest of its node. On every other node, a gang has two pods of 4
    GPUs and priority 2.

    No solution is feasible.
    """

    optional = ("rack_nodes",)

    def _solved(self, parameters: PreemptionParameters) -> Solved:
        width, racks = parameters.rack_nodes, numbered("rack", parameters.scale + 1)
        names = {rack: numbered(f"{rack}-node", width) for rack in racks}
        nodes = [node for rack in racks for node in nodes_of(names[rack], domains={"rack": rack})]
        gangs: list[Gang] = []
        for rack, (first, *others) in names.items():
            gangs.append(gang_on(f"{rack}-guard", [(first, 1, 1)], priority=3))
            gangs.append(gang_on(f"{rack}-crew", [(first, 7, 1)]))
            gangs += [gang_on(node, [(node, 2, 4)], priority=2) for node in others]
        return Solved(nodes, gangs, {"demand": pending(width, level="rack")}, None)


class SplitTopologyFamily(SolvedFamily):
    """Family ``split-topology``: the cheapest victims are in different racks.

    For k + 1 pending pods, k + 1 racks have k + 1 nodes each, all filled by pods of 8 GPUs. In each
    rack, one pod is a gang of its own with priority 1. The other pods have priority 2. In the last
    rack they form one gang; in the other racks each of them is a gang of its own.

    With ``--level none`` or ``prefer-rack`` it is optimal to lose the k + 1 gangs of priority 1.
    With ``--level rack`` a whole rack must be emptied. The last rack is the cheapest, with one gang
    of each priority.
    """

    optional = ("level",)

    def _require(self, parameters: PreemptionParameters) -> None:
        if parameters.level.endswith("block"):
            raise UserError(
                f"--level is {parameters.level}: must be rack, prefer-rack or none for family "
                f"{self.name}"
            )

    def _solved(self, parameters: PreemptionParameters) -> Solved:
        width = parameters.scale + 1
        names = {rack: numbered(f"{rack}-node", width) for rack in numbered("rack", width)}
        nodes = [node for rack in names for node in nodes_of(names[rack], domains={"rack": rack})]
        *others, last = names.values()
        cheap = [first for first, *_ in names.values()]
        gangs = single_pods(cheap)
        gangs += single_pods([node for rack in others for node in rack[1:]], priority=2)
        gangs.append(gang_on("dear", [(node, 1, 8) for node in last[1:]], priority=2))
        is_required = parameters.level == "rack"
        level = None if parameters.level == "none" else "rack"
        demand = pending(width, level=level, is_level_required=is_required)
        optimum = losing([last[0], "dear"], on=last) if is_required else losing(cheap, on=cheap)
        return Solved(nodes, gangs, {"demand": demand}, optimum)


RULE_TRAP = RuleTrapFamily(
    "rule-trap",
    version=1,
    summary="an instance with a known optimum that misleads one rule, which --trap names",
    is_drawn=False,
)
ONE_SHORT = OneShortFamily(
    "one-short",
    version=1,
    summary="each rack lacks one GPU, even if all gangs that may be lost are lost",
    is_drawn=False,
)
SPLIT_TOPOLOGY = SplitTopologyFamily(
    "split-topology",
    version=1,
    summary="the cheapest victims are in different racks, so a required rack costs more",
    is_drawn=False,
)
