"""Communication: the closed form by hand, its monotonicity, and tables of slowdowns."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.network.links import LINK_SETS, Link, LinkSet, Tier
from lyra_opt.simulation.communication import MODELS, ClosedForm, TrainedModel, read_slowdowns
from lyra_opt.simulation.topology import Topology
from tests.lyra_opt.simulation.on_racks import placed_efficiency

SHIPPED = ClosedForm()


EFFICIENCIES = {
    "resnet50": (0.98, 0.92, 0.68),
    "vgg11": (0.81, 0.58, 0.61),
    "alexnet": (0.74, 0.48, 0.46),
    "resnet18": (0.65, 0.29, 0.08),
    "mobilenetv3": (0.48, 0.10, 0.01),
    "bert": (0.63, 0.33, 0.18),
}


@pytest.mark.parametrize(("model", "efficiencies"), EFFICIENCIES.items())
def test_efficiencies_of_two_units(model, efficiencies):
    """On the shipped links without overlap, worked out by hand to two digits."""
    found = [SHIPPED.efficiency(model, 2, tier, 2) for tier in Tier]
    assert found == pytest.approx(efficiencies, abs=0.005)


def test_communication_by_hand():
    """Four machines: 6 hops of the ring, 6/4 of the bytes, 3 layers."""
    model = TrainedModel(name="x", layers=3, compute_s=0.2, all_reduce_bytes=8e9)
    links = replace(LINK_SETS["shipped"], rack=Link(bandwidth_gb_per_s=40.0, latency_s=0.01))
    form = ClosedForm(links=links, overlap=0.5, known={"x": model})
    assert form.communication_s(model, Tier.RACK, 4) == pytest.approx(0.3 + 6 * 0.01 * 3)
    assert form.exposed_s(model, Tier.RACK, 4) == pytest.approx(0.48 - 0.1)
    assert form.iteration_s(model, Tier.RACK, 4) == pytest.approx(0.58)
    assert form.efficiency("x", 32, Tier.RACK, 4) == pytest.approx(0.2 / 0.58)


def test_full_overlap_hides_what_is_shorter_than_computing():
    """And no more than that; a gang of one talks to nobody."""
    model = TrainedModel(name="x", layers=1, compute_s=1.0, all_reduce_bytes=1e9)
    form = ClosedForm(overlap=1.0, known={"x": model})
    assert form.efficiency("x", 2, Tier.MACHINE, 2) == 1.0
    slow = replace(form, known={"x": replace(model, all_reduce_bytes=6e11)})
    assert slow.efficiency("x", 2, Tier.MACHINE, 2) == pytest.approx(1.0 / 1.0000005, abs=1e-5)
    assert SHIPPED.efficiency("mobilenetv3", 1, Tier.MACHINE, 1) == 1.0


models = st.builds(
    TrainedModel,
    name=st.just("x"),
    layers=st.integers(1, 100),
    compute_s=st.floats(1e-5, 1.0),
    all_reduce_bytes=st.floats(0, 1e10),
)
link = st.builds(Link, bandwidth_gb_per_s=st.floats(1, 600), latency_s=st.floats(0, 0.1))
link_sets = st.builds(LinkSet, name=st.just("drawn"), machine=link, rack=link, network=link)
forms = st.builds(ClosedForm, links=link_sets, overlap=st.floats(0, 1))
tiers = st.sampled_from(Tier)
units = st.integers(2, 64)


@given(forms, models, tiers, units, st.floats(1, 10))
def test_iteration_does_not_fall_with_bytes_layers_latency_or_units(
    form, model, tier, count, factor
):
    """Nor rise with bandwidth; efficiency goes the other way and stays in (0, 1]."""
    slack = 1 - 1e-12
    here = form.links.at(tier)
    slower = replace(here, latency_s=here.latency_s * factor)
    wider = replace(here, bandwidth_gb_per_s=here.bandwidth_gb_per_s * factor)
    later, sooner = (
        replace(form, links=replace(form.links, **{tier.label: link})) for link in (slower, wider)
    )
    base_s = form.iteration_s(model, tier, count)
    assert sooner.iteration_s(model, tier, count) <= base_s / slack
    more_bytes = replace(model, all_reduce_bytes=model.all_reduce_bytes * factor)
    more_layers = replace(model, layers=int(model.layers * factor))
    for worse in (
        form.iteration_s(more_bytes, tier, count),
        form.iteration_s(more_layers, tier, count),
        form.iteration_s(model, tier, int(count * factor)),
        later.iteration_s(model, tier, count),
    ):
        assert worse >= base_s * slack
    known = replace(form, known={"x": model})
    assert 0 < known.efficiency("x", 64, tier, count) <= 1


@given(forms, models, units)
def test_monotone_in_tiers_where_links_worsen(form, model, count):
    """With as many units of each; on no other sets is this so, as the shipped one shows."""
    of_tiers = [form.links.at(tier) for tier in Tier]
    latencies_s = sorted(link.latency_s for link in of_tiers)
    widths = sorted((link.bandwidth_gb_per_s for link in of_tiers), reverse=True)
    worse = {
        tier.label: Link(bandwidth_gb_per_s=width, latency_s=latency_s)
        for tier, width, latency_s in zip(Tier, widths, latencies_s, strict=True)
    }
    links = LinkSet(name="worse", **worse)
    times_s = [replace(form, links=links).iteration_s(model, tier, count) for tier in Tier]
    assert times_s == sorted(times_s)


def test_shipped_network_can_be_better_than_the_rack():
    """It is twice as wide, which wide models with few layers gain from."""
    rack, network = (SHIPPED.efficiency("vgg11", 16, tier, 2) for tier in (Tier.RACK, Tier.NETWORK))
    assert network > rack


@given(st.integers(1, 80), st.sampled_from(tuple(MODELS)), st.sampled_from(tuple(LINK_SETS)))
def test_tier_efficiencies_are_those_of_the_fewest_units(gang, model, name):
    """0 where a gang cannot be; no placement at that tier is better."""
    topology = Topology.uniform(racks=2, machines_per_rack=4, gpus_per_machine=8)
    assume(gang <= topology.gpus)
    form = ClosedForm(links=LINK_SETS[name])
    found = form.tier_efficiency(model, gang, topology)
    assert (found[Tier.MACHINE] > 0) == (gang <= 8)
    assert (found[Tier.RACK] > 0) == (1 < gang <= 32)
    assert (found[Tier.NETWORK] > 0) == (gang > 1)
    for places in ([0], [0, 1], [0, 1, 2], [0, 4], [0, 1, 4, 5]):
        tier = topology.tier_of(places)
        if found[tier] and gang >= len(places):
            placed = placed_efficiency(form, model, gang, places, topology)
            assert placed <= found[tier] * (1 + 1e-12) or 8 * len(places) < gang


def test_an_unknown_model_names_those_that_are_known():
    """Before anything is computed."""
    with pytest.raises(UserError, match="model 'gpt': must be one of: resnet50, resnet18"):
        SHIPPED.efficiency("gpt", 2, Tier.RACK, 2)


def test_a_table_of_slowdowns(write):
    """One over the slowdown, however many units; a single GPU is never slowed."""
    lines = "mine, 2, machine, 1\nmine,2,rack,1.25\n\nmine,2,network,4\n"
    table = read_slowdowns(write("model,gpus,tier,slowdown\n" + lines))
    assert list(table.models()) == ["mine"]
    assert [table.efficiency("mine", 2, tier, 2) for tier in Tier] == [1.0, 0.8, 0.25]
    assert table.efficiency("mine", 2, Tier.RACK, 7) == 0.8
    assert table.efficiency("mine", 1, Tier.MACHINE, 1) == 1.0
    with pytest.raises(UserError, match="no line for model 'mine' on 4 GPUs at tier rack"):
        table.efficiency("mine", 4, Tier.RACK, 2)
