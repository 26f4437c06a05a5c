"""Topologies: what spans what, and the TOML file."""

from itertools import combinations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError, UserError
from lyra_opt.network.links import LINK_SETS, Link, LinkSet, Tier, find_link_set
from lyra_opt.simulation.topology import Rack, Topology, read_topology
from tests.lyra_opt.simulation.on_racks import span_of
from tests.tables import beside

MIXED = Topology(
    name="mixed", racks=(Rack(machines=2, gpus_per_machine=8), Rack(machines=1, gpus_per_machine=4))
)


def test_quantities_by_hand():
    """Two machines of 8 GPUs in one rack, one of 4 in the other."""
    numbers = (MIXED.gpus_of_machine, MIXED.rack_of_machine, MIXED.first_machine_of_rack)
    assert [each.tolist() for each in numbers] == [[8, 8, 4], [0, 0, 1], [0, 2, 3]]
    assert (MIXED.machines, MIXED.gpus) == (3, 20)
    assert (MIXED.largest_machine_gpus, MIXED.largest_rack_gpus) == (8, 16)
    assert MIXED.machine_names() == ["r0m0", "r0m1", "r1m0"]
    assert Topology.uniform(racks=4, machines_per_rack=8).name == "4x8x8"


RACK = st.builds(Rack, machines=st.integers(1, 3), gpus_per_machine=st.integers(1, 4))


@given(st.lists(RACK, min_size=1, max_size=3), st.integers(1, 20))
def test_room_is_there_exactly_where_some_machines_span_the_tier(racks, gang):
    """Of unlike racks the largest may be one machine: every set of machines is asked."""
    topology = Topology(name="drawn", racks=tuple(racks))
    assume(gang <= topology.gpus)
    fewest = {}
    for count in range(1, min(gang, topology.machines) + 1):
        for places in combinations(range(topology.machines), count):
            if topology.gpus_of_machine[list(places)].sum() >= gang:
                tier, units = span_of(topology, places, gang)
                fewest[tier] = min(fewest.get(tier, units), units)
    able = [tier for tier in Tier if topology.can_span(tier, gang)]
    assert {tier: topology.fewest_units(tier, gang) for tier in able} == fewest


UNIFORM = beside(__file__, "equal-racks.toml")
RACKS = beside(__file__, "unlike-racks.toml")


def test_a_file_of_equal_racks(write):
    """Links are the shipped ones unless it says otherwise, or the command line does."""
    path = write(UNIFORM)
    topology, links = read_topology(path)
    assert (topology.name, topology.machines, topology.gpus) == ("four racks", 32, 256)
    assert links is LINK_SETS["shipped"]
    assert read_topology(path, network=LINK_SETS["congested-1"])[1].name == "congested-1"


def test_a_file_of_unlike_racks(write):
    """Racks are counted, and a tier of links of its own changes the named set there alone."""
    topology, links = read_topology(write(RACKS))
    assert topology.gpus_of_machine.tolist() == [8] * 8 + [2]
    assert topology.first_machine_of_rack.tolist() == [0, 4, 8, 9]
    assert links.rack == Link(bandwidth_gb_per_s=10, latency_s=1e-6)
    assert links.network == LINK_SETS["congested-2"].network
    assert links.name == "congested-2, changed"


def test_link_sets_are_those_of_the_configurations():
    """Gigabytes a second and seconds; in the shipped set the network is wider than the rack."""
    found = {
        name: [(each.bandwidth_gb_per_s, each.latency_s) for each in (links.rack, links.network)]
        for name, links in LINK_SETS.items()
    }
    assert found == {
        "shipped": [(200, 5e-6), (400, 50e-6)],
        "congested-1": [(100, 500e-9), (400, 50e-6)],
        "congested-2": [(50, 500e-9), (400, 50e-6)],
        "congested-3": [(25, 5e-3), (10, 50e-3)],
    }


def test_a_set_that_is_not_known():
    """Names those that are."""
    assert find_link_set("congested-3") is LINK_SETS["congested-3"]
    with pytest.raises(UserError, match="unknown links 'fast'; known: shipped, congested-1"):
        find_link_set("fast")
    with pytest.raises(FieldError, match="name"):
        LinkSet(name="", machine=Link(bandwidth_gb_per_s=1, latency_s=0), rack=None, network=None)
