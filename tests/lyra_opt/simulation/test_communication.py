"""Communication: the closed form by hand, its monotonicity, and tables of slowdowns."""

from dataclasses import replace

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.network.links import LINK_SETS, Link, Tier
from lyra_opt.simulation.communication import ClosedForm, TrainedModel, read_slowdowns
from tests.tables import tables

SHIPPED = ClosedForm()


EFFICIENCIES = tables(__file__)["efficiencies"]


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
