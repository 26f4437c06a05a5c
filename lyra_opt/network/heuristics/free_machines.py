"""Free GPUs during one decision: where gangs fit, and how they are split over machines."""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise

from lyra_opt.network.heuristics.policy import MachineState
from lyra_opt.network.links import Tier


class FreeMachines(ABC):
    """The free GPUs of machines and racks during one decision.

    A gang placed at a tier really spans it: it uses at least two machines of one rack, or two
    racks. So a gang gets a placement at the tier that its rule chose, even if a nearer tier has
    room.

    Parameters
    ----------
    machines
        State of the machines before the decision; it is not changed. O(machines).

    Attributes
    ----------
    gpus
        Number of GPUs that are still free.
    """

    def __init__(self, machines: MachineState) -> None:
        # Lists are used, because building arrays takes far longer on clusters of the usual size.
        free: list[int] = machines.free_gpus.tolist()
        self._free = free
        self._first: list[int] = machines.first_machine_of_rack.tolist()
        self._rack_of_machine = machines.rack_of_machine
        racks = [free[start:end] for start, end in pairwise(self._first)]
        self._free_of_rack = list(map(sum, racks))
        self._open_machines = [len(rack) - rack.count(0) for rack in racks]
        self._open_racks = len(racks) - self._free_of_rack.count(0)
        self.gpus = sum(self._free_of_rack)

    @property
    def counts(self) -> list[int]:
        """Number of free GPUs of each machine."""
        return self._free

    def has_room(self, gang: int, tier: Tier) -> bool:
        """Return whether free GPUs allow a gang to span the tier; timers are not checked."""
        if tier is Tier.MACHINE:
            return self.find_machine(gang) is not None
        if tier is Tier.RACK:
            return gang > 1 and self.find_rack(gang) is not None
        return gang > 1 and self._open_racks > 1 and self.gpus >= gang

    def find(self, gang: int, tier: Tier) -> dict[int, int] | None:
        """Return GPUs by machine for a gang that spans the tier; None if it does not fit."""
        if tier is Tier.MACHINE:
            machine = self.find_machine(gang)
            return None if machine is None else {machine: gang}
        if gang == 1:
            return None
        if tier is Tier.RACK:
            rack = self.find_rack(gang)
            return None if rack is None else self._split_over_machines(gang, rack, gang - 1)
        return self._split_over_racks(gang) if self.has_room(gang, tier) else None

    def nearest(self, gang: int, can_run: Sequence[bool]) -> tuple[Tier, dict[int, int]] | None:
        """Return the nearest tier that has room for a gang, with GPUs there; None if no tier has.

        Only tiers at which the gang can run are tried.
        """
        for tier in Tier:
            if can_run[tier]:
                gpus = self.find(gang, tier)
                if gpus is not None:
                    return tier, gpus
        return None

    def place(self, gang: int, tier: Tier) -> dict[int, int] | None:
        """Take GPUs for a gang that spans the tier and return them; None if it does not fit."""
        found = self.find(gang, tier)
        if found is not None:
            self.take(found)
        return found

    def place_in_rack(self, gang: int, rack: int) -> dict[int, int] | None:
        """Take GPUs on at least two machines of a rack; None if the gang does not fit."""
        if gang < 2 or self._free_of_rack[rack] < gang or self._open_machines[rack] < 2:
            return None
        gpus = self._split_over_machines(gang, rack, most_on_one=gang - 1)
        self.take(gpus)
        return gpus

    def take(self, gpus: dict[int, int]) -> None:
        """Mark GPUs as used; all of them must be free."""
        for machine, count in gpus.items():
            rack = self._rack_of_machine[machine]
            self._free[machine] -= count
            self._free_of_rack[rack] -= count
            self.gpus -= count
            if not self._free[machine]:
                self._open_machines[rack] -= 1
                if not self._free_of_rack[rack]:
                    self._open_racks -= 1

    def tier_of(self, gpus: Iterable[int]) -> Tier:
        """Return the tier that a nonempty set of machines spans."""
        places = set(gpus)
        if len(places) == 1:
            return Tier.MACHINE
        racks = {self._rack_of_machine[machine] for machine in places}
        return Tier.RACK if len(racks) == 1 else Tier.NETWORK

    @abstractmethod
    def find_machine(self, gang: int) -> int | None:
        """Return a machine that can hold the gang; None if no machine can."""

    @abstractmethod
    def find_rack(self, gang: int) -> int | None:
        """Return a rack that can hold the gang on at least two machines; None if no rack can."""

    @abstractmethod
    def _split_over_machines(self, gang: int, rack: int, most_on_one: int) -> dict[int, int]:
        """Split a gang over the machines of a rack; return the GPUs taken by machine."""

    @abstractmethod
    def _split_over_racks(self, gang: int) -> dict[int, int]:
        """Split a gang over at least two racks; return the GPUs taken by machine."""

    def _machines_of(self, rack: int) -> range:
        return range(self._first[rack], self._first[rack + 1])


class FirstFit(FreeMachines):
    """First fit: the first machine or rack with room, and GPUs in the order of machines.

    Free GPUs only shrink. So a search continues where the last search for an equal gang ended, and
    a split skips each full machine only once. All searches of a decision together take O(distinct
    gangs (machines + racks)), and all splits O((machines + racks + machines taken) log machines).
    """

    def __init__(self, machines: MachineState) -> None:
        super().__init__(machines)
        self._machines_with_room = _WithRoom(self._free)
        self._racks_with_room = _WithRoom(self._free_of_rack)
        self._next_machine: dict[int, int] = {}
        self._next_rack: dict[int, int] = {}

    def find_machine(self, gang: int) -> int | None:
        """Return the first machine that can hold the gang; None if no machine can."""
        free, machines = self._free, len(self._free)
        machine = self._next_machine.get(gang, 0)
        while machine < machines and free[machine] < gang:
            machine += 1
        self._next_machine[gang] = machine
        return machine if machine < machines else None

    def find_rack(self, gang: int) -> int | None:
        """Return the first rack that can hold the gang on at least two machines, else None."""
        free, open_machines = self._free_of_rack, self._open_machines
        rack = self._next_rack.get(gang, 0)
        while rack < len(free) and (free[rack] < gang or open_machines[rack] < 2):
            rack += 1
        self._next_rack[gang] = rack
        return rack if rack < len(free) else None

    def in_order(self, gang: int) -> dict[int, int]:
        """Return GPUs for a gang from the first machines with free GPUs, whatever tier they span.

        At least as many GPUs as the gang must be free.
        """
        return self._machines_with_room.share_out(0, gang, most_on_one=gang)

    def _split_over_machines(self, gang: int, rack: int, most_on_one: int) -> dict[int, int]:
        return self._machines_with_room.share_out(self._first[rack], gang, most_on_one)

    def _split_over_racks(self, gang: int) -> dict[int, int]:
        taken: dict[int, int] = {}
        shares = self._racks_with_room.share_out(0, gang, most_on_one=gang - 1)
        for rack, count in shares.items():
            taken |= self._split_over_machines(count, rack, most_on_one=count)
        return taken


class _WithRoom:
    """Finds the next machine or rack with free GPUs while GPUs are only taken.

    Parameters
    ----------
    free
        Free GPUs by position; the owner of the list takes GPUs from it.
    """

    def __init__(self, free: list[int]) -> None:
        self._free = free
        # `_next[i]` is a later position, and no position between i and `_next[i]` has free GPUs.
        self._next = list(range(1, len(free) + 1))

    def share_out(self, start: int, gang: int, most_on_one: int) -> dict[int, int]:
        """Return how many GPUs a gang takes from each machine or rack, in order of position.

        The positions from `start` on must hold the gang. Over all calls the cost is O(log
        positions) per position taken or full, because the list is a disjoint-set forest with path
        compression.
        """
        taken: dict[int, int] = {}
        place = start
        while gang:
            place = self._first_from(place)
            taken[place] = count = min(self._free[place], gang, most_on_one)
            gang -= count
            place += 1
        return taken

    def _first_from(self, place: int) -> int:
        free, following = self._free, self._next
        found = place
        while not free[found]:
            found = following[found]
        while place < found:
            following[place], place = found, following[place]
        return found


class BestFit(FreeMachines):
    """Best fit: the tightest machine or rack with room, else as few racks and machines as possible.

    Ties are broken by position. The machines of a rack are taken by most free GPUs; the last one is
    the tightest that holds the rest. Racks are taken in the same way. This gives the fewest
    machines of a rack, the fewest racks, and the fewest machines in each rack. A search takes O(log
    machines), a change O(machines) (in a sorted list), and a split O(machines log machines).
    """

    def __init__(self, machines: MachineState) -> None:
        super().__init__(machines)
        self._machines = sorted((free, number) for number, free in enumerate(self._free) if free)
        self._racks = sorted((free, rack) for rack, free in enumerate(self._free_of_rack) if free)

    def take(self, gpus: dict[int, int]) -> None:
        """Mark GPUs as used, and update the sorted lists; all of them must be free."""
        free, free_of_rack = self._free, self._free_of_rack
        racks = {self._rack_of_machine[machine] for machine in gpus}
        for machine in gpus:
            del self._machines[bisect_left(self._machines, (free[machine], machine))]
        for rack in racks:
            del self._racks[bisect_left(self._racks, (free_of_rack[rack], rack))]
        super().take(gpus)
        for machine in gpus:
            if free[machine]:
                insort(self._machines, (free[machine], machine))
        for rack in racks:
            if free_of_rack[rack]:
                insort(self._racks, (free_of_rack[rack], rack))

    def find_machine(self, gang: int) -> int | None:
        """Return the tightest machine that can hold the gang; None if no machine can."""
        place = bisect_left(self._machines, (gang, -1))
        return self._machines[place][1] if place < len(self._machines) else None

    def find_rack(self, gang: int) -> int | None:
        """Return the tightest rack that can hold the gang on at least two machines, else None."""
        for place in range(bisect_left(self._racks, (gang, -1)), len(self._racks)):
            rack = self._racks[place][1]
            if self._open_machines[rack] > 1:
                return rack
        return None

    def _split_over_machines(self, gang: int, rack: int, most_on_one: int) -> dict[int, int]:
        sizes = [(self._free[machine], machine) for machine in self._machines_of(rack)]
        return _fewest(gang, sizes, most_on_one)

    def _split_over_racks(self, gang: int) -> dict[int, int]:
        sizes = [(free, rack) for free, rack in self._racks]
        taken: dict[int, int] = {}
        for rack, count in _fewest(gang, sizes, gang - 1).items():
            taken |= self._split_over_machines(count, rack, most_on_one=count)
        return taken


def _fewest(gang: int, sizes: list[tuple[int, int]], most_on_one: int) -> dict[int, int]:
    """Return the GPUs to take from each unit, using as few units as possible.

    `sizes` lists pairs (free GPUs, unit), which together hold the gang. At most `most_on_one` GPUs
    are taken from each unit.
    """
    largest_first = sorted(sizes, key=lambda size: (-size[0], size[1]))
    taken: dict[int, int] = {}
    for place, (free, unit) in enumerate(largest_first):
        count = min(free, most_on_one)
        if count >= gang:
            rest = (size for size in largest_first[place:] if size[0] >= gang)
            taken[min(rest)[1]] = gang
            return taken
        taken[unit] = count
        gang -= count
    raise AssertionError("these machines or racks have fewer free GPUs than the gang needs")
