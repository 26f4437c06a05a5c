"""Which fixed timers there are to choose from, by demand class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.core.validation import require_integer
from lyra_opt.simulation.network.class_timers import ClassTimers, TimerClass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lyra_opt.simulation.network.topology import Topology

MOST_LEASES = 24
"""Of a timer that is not for ever: the window of Dally's auto-tuner, beyond which it never goes."""

BASELINES: Mapping[str, tuple[float, float]] = {
    "no wait": (0, 0),
    "defaults (1, 2)": (1, 2),
    "floors (6, 12)": (6, 12),
    "consolidated": (math.inf, math.inf),
}
"""Rack and network timers of all gangs, in leases: what is tried first, so that what is found is no
worse. Dally's simulator has the second where it is given none, and tunes from the third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A timer that is chosen.

    Parameters
    ----------
    name
        Of the parameter.
    largest_gang
        Of its class.
    is_rack
        Whether it is the rack timer, and not the network timer.
    """

    name: str
    largest_gang: int
    is_rack: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerSpace:
    """Timers of whole leases, from 0 to a largest, or for ever.

    A timer that holds nobody back is not chosen and 0: the rack timer of gangs that no machine
    holds, the network timer of gangs that no rack holds, both of single GPUs and of tiers that the
    cluster does not have.

    Parameters
    ----------
    largest_gangs
        Of the classes, increasing, at least 1; the last holds all gangs that timers can hold back,
        so that the same timers for all gangs are in the space.
    topology
        The cluster.
    most_leases
        Largest timer that ends, at least 0.

    Raises
    ------
    UserError
        If a parameter breaks a rule, or on this cluster timers hold nobody back.
    """

    largest_gangs: tuple[int, ...]
    topology: Topology
    most_leases: int = MOST_LEASES

    def __post_init__(self) -> None:
        require_integer("most_leases", self.most_leases, minimum=0)
        if not self.largest_gangs:
            raise FieldError("classes", [], "must have at least one entry")
        before = 0
        for position, gang in enumerate(self.largest_gangs):
            require_integer(f"classes[{position}]", gang, minimum=1)
            if gang <= before:
                raise FieldError(f"classes[{position}]", gang, f"must be above {before}")
            before = gang
        held = largest_held_gang(self.topology)
        if before < held:
            rule = f"must be at least {held}, the largest gang that timers hold back"
            raise FieldError(f"classes[{len(self.largest_gangs) - 1}]", before, rule)
        if not self.choices:
            raise UserError(f"on topology {self.topology.name} timers hold nobody back")

    @classmethod
    def of(
        cls, topology: Topology, *, most_leases: int = MOST_LEASES, classes: Iterable[int] = ()
    ) -> TimerSpace:
        """Return the space of a cluster, with classes for what fits a machine, and a rack.

        Parameters
        ----------
        classes
            Largest gangs of other classes; empty for these two. If timers can hold back larger
            gangs, a last class has those.
        """
        usual = sorted({topology.largest_machine_gpus, topology.largest_rack_gpus})
        gangs = tuple(classes) or tuple(usual)
        held = largest_held_gang(topology)
        if gangs[-1] < held:
            gangs += (held,)
        return cls(largest_gangs=gangs, topology=topology, most_leases=most_leases)

    @property
    def choices(self) -> list[Choice]:
        """What is chosen."""
        topology = self.topology
        has_racks = max(rack.machines for rack in topology.racks) > 1
        found = []
        smallest = 1
        for gang in self.largest_gangs:
            if gang > 1 and has_racks and smallest <= topology.largest_machine_gpus:
                found.append(Choice(name=f"rack-{gang}", largest_gang=gang, is_rack=True))
            if gang > 1 and len(topology.racks) > 1 and smallest <= topology.largest_rack_gpus:
                found.append(Choice(name=f"network-{gang}", largest_gang=gang, is_rack=False))
            smallest = gang + 1
        return found

    @property
    def baselines(self) -> dict[str, dict[str, int]]:
        """Steps of `BASELINES` by name; where they are cut to the largest, the name says so."""
        found = {}
        for name, pair in BASELINES.items():
            cut = tuple(self._cut(leases) for leases in pair)
            found[name if cut == pair else f"{name}, cut to {cut}"] = self.steps_of(*cut)
        return found

    @property
    def largest_step(self) -> int:
        """The step that stands for ever; steps are the leases below it."""
        return self.most_leases + 1

    def timers(self, steps: Mapping[str, int]) -> ClassTimers:
        """Return the timers of steps by the names of choices; those that are missing are 0."""

        def leases(kind: str, gang: int) -> float:
            step = steps.get(f"{kind}-{gang}", 0)
            return math.inf if step == self.largest_step else float(step)

        return ClassTimers(
            tuple(
                TimerClass(
                    largest_gang=gang,
                    rack_leases=leases("rack", gang),
                    network_leases=leases("network", gang),
                )
                for gang in self.largest_gangs
            )
        )

    def steps_of(self, rack_leases: float, network_leases: float) -> dict[str, int]:
        """Return the steps of timers that are the same for all gangs, cut to the largest."""

        def step(leases: float) -> int:
            return self.largest_step if leases == math.inf else int(self._cut(leases))

        return {
            choice.name: step(rack_leases if choice.is_rack else network_leases)
            for choice in self.choices
        }

    def _cut(self, leases: float) -> float:
        return leases if leases == math.inf else min(leases, self.most_leases)

    def drawn(self, draw: Callable[[str, int, int], int]) -> ClassTimers:
        """Return timers whose steps are drawn.

        Parameters
        ----------
        draw
            Is given a name, the least and the largest step.
        """
        return self.timers(
            {choice.name: draw(choice.name, 0, self.largest_step) for choice in self.choices}
        )


def largest_held_gang(topology: Topology) -> int:
    """Return the largest gang that timers can hold back on a cluster.

    One that fits a rack waits for it rather than run across racks, if there are several; else one
    that fits a machine.
    """
    return topology.largest_rack_gpus if len(topology.racks) > 1 else topology.largest_machine_gpus
