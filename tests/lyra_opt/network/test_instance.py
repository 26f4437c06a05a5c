"""Instances and links: which tiers a gang accepts, and what is derived of a cluster."""

from dataclasses import replace

import pytest

from lyra_opt.network.links import LINK_SETS, Tier
from tests.lyra_opt.network.examples import MACHINES, instance


@pytest.mark.parametrize("tier", Tier)
def test_latency_of_one_tier_changes_that_alone(tier):
    """Bandwidth stays, so do the other tiers; the name says what is other."""
    links = LINK_SETS["congested-2"]
    other = links.with_latency({tier.label: 71e-9})
    assert other.at(tier) == replace(links.at(tier), latency_s=71e-9)
    assert all(other.at(each) == links.at(each) for each in Tier if each is not tier)
    assert other.name == f"congested-2, {tier.label} 7.1e-08 s"
    assert links.with_latency({}) == links


def test_derived_quantities():
    """By hand; racks in order of appearance, wherever their machines stand in the file."""
    mixed = replace(instance(), machines=(MACHINES[0], MACHINES[2], MACHINES[1], MACHINES[3]))
    assert mixed.racks == {"r0": (0, 2), "r1": (1, 3)}
    assert (mixed.largest_machine_gpus, mixed.largest_rack_gpus, mixed.free_gpus) == (4, 8, 10)
    assert mixed.tier_of({"r0m0": 1}) is Tier.MACHINE
    assert mixed.tier_of({"r0m0": 1, "r0m1": 1}) is Tier.RACK
    assert mixed.tier_of({"r0m0": 1, "r1m0": 1}) is Tier.NETWORK
