"""Families with a known optimum: ``rule-trap``, ``one-short`` and ``split-topology``.

Source: this project. Sizes grow with ``--scale``, and nothing is random.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from lyra_opt.core.errors import UserError
from lyra_opt.instances.preemption.family import PreemptionFamily, gang_on
from lyra_opt.instances.preemption.traps import (
    BUILDERS,
    Solved,
    nodes_of,
    numbered,
    pending,
    placed_on,
    single_pods,
)
from lyra_opt.preemption.instance import Instance, Solution

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.instances.preemption.parameters import PreemptionParameters
    from lyra_opt.preemption.instance import Gang, Node


class SolvedFamily(PreemptionFamily):
    """Base class of the families with a known optimum."""

    required: ClassVar[tuple[str, ...]] = ("scale",)
    shown_always: ClassVar[tuple[str, ...]] = ("scale",)

    @abstractmethod
    def _solved(self, parameters: PreemptionParameters) -> Solved:
        """Return the instance without its name, with its optimum."""

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance, which does not depend on the seed."""
        checked: PreemptionParameters = self.check(parameters)
        return Instance(name=self._name(checked, seed), **self._solved(checked).fields)

    def known_optimum(self, parameters: Mapping[str, Any]) -> tuple[Solution, int] | None:
        """Return the optimal solution with its objective; None if no solution is feasible."""
        solved = self._solved(self.check(parameters))
        if solved.optimum is None:
            return None
        terms = Instance(**solved.fields).terms
        return solved.optimum, terms.encode([solved.values.get(t.key, 0) for t in terms.terms])


class RuleTrapFamily(SolvedFamily):
    """Family ``rule-trap``: `lyra_opt.instances.preemption.traps` explains each trap."""

    required = ("trap", "scale")
    shown_always = ("trap", "scale")

    def _solved(self, parameters: PreemptionParameters) -> Solved:
        return BUILDERS[parameters.trap](parameters.scale)


class OneShortFamily(SolvedFamily):
    """Family ``one-short``: racks in which one GPU is missing although everybody may be preempted.

    As many pods of 8 GPUs are pending as a rack has nodes, and they must be in one rack. In each of
    k + 1 racks, one pod with one GPU has the priority of the pending gang and must stay. The rest
    of its node holds a gang of 7 pods with priority 1, and every other node a gang with two pods of
    4 GPUs and priority 2.

    With ``--blocked every`` no solution is feasible. With ``all-but-last`` the small pod of the
    last rack has priority 1. The only solution is then to lose all gangs of this rack.
    """

    optional = ("rack_nodes", "blocked")

    def _solved(self, parameters: PreemptionParameters) -> Solved:
        width = parameters.rack_nodes
        racks = numbered("rack", parameters.scale + 1)
        has_last = parameters.blocked == "all-but-last"
        nodes: list[Node] = []
        gangs: list[Gang] = []
        for rack in racks:
            names = numbered(f"{rack}-node", width)
            nodes += nodes_of(names, domains={"rack": rack})
            is_open = has_last and rack == racks[-1]
            rest = [gang_on(f"{rack}-guard", [(names[0], 1, 1)], priority=1 if is_open else 3)]
            rest.append(gang_on(f"{rack}-crew", [(names[0], 7, 1)]))
            rest += [gang_on(node, [(node, 2, 4)], priority=2) for node in names[1:]]
            gangs += rest
        optimum = Solution(lost_gangs=[gang.id for gang in rest], placements=placed_on(names))
        return Solved(
            fields={"nodes": nodes, "gangs": gangs, "demand": pending(width, level="rack")},
            optimum=optimum if has_last else None,
            values={"lost_gangs@2": width - 1, "lost_gangs@1": 2, "lost:gpu": 8 * width},
        )


class SplitTopologyFamily(SolvedFamily):
    """Family ``split-topology``: cheap victims in different racks, so that a rack costs more.

    For k + 1 pending pods, k + 1 racks have k + 1 nodes each, all filled by pods of 8 GPUs. One pod
    per rack is a gang of its own with priority 1. The others have priority 2: in the last rack they
    are one gang, in the other racks one gang each.

    With ``--level none`` or ``prefer-rack`` the optimum is the k + 1 gangs of priority 1. With
    ``--level rack`` a whole rack must be emptied, and the last one is cheapest, with one gang of
    each priority.
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
        last = f"rack-{width}"
        cheap = [nodes[0] for nodes in names.values()]
        gangs = single_pods(cheap, 8)
        for rack, nodes in names.items():
            if rack != last:
                gangs += single_pods(nodes[1:], 8, priority=2)
        gangs.append(gang_on("dear", [(node, 1, 8) for node in names[last][1:]], priority=2))
        is_split = parameters.level != "rack"
        demand = pending(width)
        if parameters.level != "none":
            demand = pending(width, level="rack", is_level_required=not is_split)
        return Solved(
            fields={
                "nodes": [
                    node
                    for rack, nodes in names.items()
                    for node in nodes_of(nodes, domains={"rack": rack})
                ],
                "gangs": gangs,
                "demand": demand,
            },
            optimum=Solution(
                lost_gangs=cheap if is_split else [cheap[-1], "dear"],
                placements=placed_on(cheap if is_split else names[last]),
            ),
            values={
                "lost_gangs@2": 0 if is_split else 1,
                "lost_gangs@1": width if is_split else 1,
                "lost:gpu": 8 * width,
                "extra_domains": width - 1 if is_split else 0,
            },
        )


RULE_TRAP = RuleTrapFamily(
    "rule-trap",
    version=1,
    summary="an instance with a known optimum that misleads one rule, which --trap names",
    is_drawn=False,
)
ONE_SHORT = OneShortFamily(
    "one-short",
    version=1,
    summary="racks that are one GPU short even if everybody who may be lost is lost",
    is_drawn=False,
)
SPLIT_TOPOLOGY = SplitTopologyFamily(
    "split-topology",
    version=1,
    summary="cheap victims in different racks; a required rack makes the optimum dearer",
    is_drawn=False,
)
