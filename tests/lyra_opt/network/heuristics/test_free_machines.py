"""Where gangs fit: both fits against looking at every machine and every choice of machines."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.network.heuristics.free_machines import BestFit, FirstFit, _WithRoom
from lyra_opt.network.heuristics.policy import MachineState
from lyra_opt.network.links import Tier

Racks = list[list[int]]
clusters = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), min_size=1, max_size=3)
offers = st.lists(st.tuples(st.integers(1, 12), st.sampled_from(Tier)), max_size=6)


def machines_of(racks):
    """Return machines of 4 GPUs with so many free."""
    free = np.array([count for rack in racks for count in rack], np.int64)
    first = np.concatenate(([0], np.cumsum([len(rack) for rack in racks])))
    return MachineState(
        gpus=np.full(len(free), 4, np.int64),
        free_gpus=free,
        first_machine_of_rack=first,
        affinity=np.zeros(len(free), np.int64),
    )


def spanned(racks, machines):
    """Return what machines span, the plain way."""
    if len(machines) == 1:
        return Tier.MACHINE
    home = [number for number, rack in enumerate(racks) for _ in rack]
    return Tier.RACK if len({home[machine] for machine in machines}) == 1 else Tier.NETWORK


def choices(racks, gang, tier):
    """Return every set of open machines that spans the tier and can hold the gang, all in use."""
    free = [count for rack in racks for count in rack]
    numbers = [machine for machine, count in enumerate(free) if count]
    return [
        chosen
        for size in range(1, min(gang, len(numbers)) + 1)
        for chosen in combinations(numbers, size)
        if spanned(racks, chosen) is tier and sum(free[machine] for machine in chosen) >= gang
    ]


def left(racks, gpus):
    """Return what is free after GPUs are taken."""
    numbers = iter(range(sum(map(len, racks))))
    return [[count - gpus.get(next(numbers), 0) for count in rack] for rack in racks]


@pytest.mark.parametrize("fit", [FirstFit, BestFit])
@given(racks=clusters, wishes=offers)
def test_finds_room_wherever_there_is_any_and_spans_the_tier(fit, racks, wishes):
    """One gang after another: what is found is free, whole, spans the tier; no room is missed."""
    free = fit(machines_of(racks))
    for gang, tier in wishes:
        possible = choices(racks, gang, tier)
        assert free.has_room(gang, tier) == bool(possible)
        gpus = free.place(gang, tier)
        assert (gpus is not None) == bool(possible)
        if gpus is not None:
            assert sum(gpus.values()) == gang
            assert min(gpus.values()) > 0
            assert spanned(racks, list(gpus)) is free.tier_of(gpus) is tier
            racks = left(racks, gpus)
            assert min(min(rack) for rack in racks) >= 0
        assert free.gpus == sum(map(sum, racks))


@pytest.mark.parametrize("fit", [FirstFit, BestFit])
@given(racks=clusters, wishes=offers)
def test_remembers_what_was_taken(fit, racks, wishes):
    """A search after others finds what a fresh one does: no pointer or list is out of date."""
    free = fit(machines_of(racks))
    for gang, tier in wishes:
        fresh = fit(machines_of(racks))
        gpus = free.place(gang, tier)
        assert gpus == fresh.find(gang, tier)
        racks = left(racks, gpus or {})


def test_best_fit_leaves_the_least_over():
    """Of a rack with 4, 3 and 1 free, a gang of 5 takes the 4 and the 1, not part of the 3."""
    assert BestFit(machines_of([[3, 4, 1]])).find(5, Tier.RACK) == {1: 4, 2: 1}


def test_a_rack_is_spanned_even_where_a_machine_would_do():
    """A gang that cannot run in a machine gets two, though the first could hold it."""
    assert FirstFit(machines_of([[4, 4]])).find(3, Tier.RACK) == {0: 2, 1: 1}
    assert FirstFit(machines_of([[4, 4], [1]])).find(3, Tier.NETWORK) == {0: 2, 2: 1}
    assert FirstFit(machines_of([[4], [4]])).find(3, Tier.RACK) is None


def test_in_order_takes_the_first_gpus():
    """Gandiva's large gangs take what comes first, whatever it spans."""
    assert FirstFit(machines_of([[1, 0], [4]])).in_order(3) == {0: 1, 2: 2}


class Counted(list[int]):
    """A list that counts how often it is asked for an entry."""

    reads = 0

    def __getitem__(self, place):
        self.reads += 1
        return super().__getitem__(place)


@pytest.mark.parametrize("machines_per_rack", [1, 1000])
@pytest.mark.parametrize("first_gpus", [1, 4000])
def test_what_is_full_is_not_looked_at_again(machines_per_rack, first_gpus):
    """A decision that fills the cluster reads each machine a few times, not once for each gang."""
    racks = [[1] * machines_per_rack for _ in range(1000 // machines_per_rack)]
    racks[0][0] = first_gpus
    free = FirstFit(machines_of(racks))
    counts = [Counted(free._free), Counted(free._free_of_rack)]
    free._free, free._free_of_rack = counts
    free._machines_with_room = _WithRoom(counts[0])
    free._racks_with_room = _WithRoom(counts[1])
    tier = Tier.RACK if machines_per_rack > 1 else Tier.NETWORK
    gangs = 0
    while free.place(2, tier) is not None:
        gangs += 1
    assert gangs == (500 if first_gpus == 1 else 999)
    assert sum(count.reads for count in counts) < 60 * 1000
