"""Links by name, and with other latencies."""

from __future__ import annotations

import pytest

from lyra_opt.network.links import LINK_SETS, Tier


@pytest.mark.parametrize("tier", Tier)
def test_latency_of_one_tier_changes_that_alone(tier):
    """Bandwidth stays, so do the other tiers; the name says what is other."""
    links = LINK_SETS["congested-2"]
    other = links.with_latency({tier.label: 71e-9})
    assert other.at(tier).latency_s == 71e-9
    assert other.at(tier).bandwidth_gb_per_s == links.at(tier).bandwidth_gb_per_s
    assert all(other.at(each) == links.at(each) for each in Tier if each is not tier)
    assert other.name == f"congested-2, {tier.label} 7.1e-08 s"


def test_no_other_latency_is_the_same_links():
    """Nothing said, nothing changed."""
    assert LINK_SETS["shipped"].with_latency({}) == LINK_SETS["shipped"]
