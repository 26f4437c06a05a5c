"""What Pollux's own simulator gave, as data, and ours close to it."""

from __future__ import annotations

import numpy as np
import pytest

from lyra_opt.experiments.simulation.scenario.building import make_setup
from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario
from lyra_opt.experiments.simulation.scenario.schemes import make_schemes
from lyra_opt.paper_figures.comparison import Source
from lyra_opt.paper_figures.document import find_paper
from lyra_opt.simulation.scheme import simulate
from tests.draws import sampled
from tests.instances.workloads.published import published
from tests.paper_figures.made_up import made

TARGET = 0.05


def test_no_number_is_said_to_be_the_papers():
    """All are those of its authors' artifact, and the page says so."""
    comparison = made("pollux", "table", 1)
    assert {entry.source for entry in comparison.entries} == {Source.ARTIFACT}
    assert "not numbers printed in the paper" in find_paper("pollux").introduction[0]


@pytest.mark.parametrize("number", sampled([(1,), (3,), (6,)], 3))
def test_mean_jcts_are_near(number):
    """To what Pollux's own simulator gave for the same jobs."""
    paper = find_paper("pollux")
    run = f"workload-{number}"
    published(f"{run}.csv")
    scenario = load_scenario("pollux", [Change("jobs.parameters.number", number)])
    assert paper.scenarios[run].changes == {"jobs.parameters.number": number}
    (scheme,) = make_schemes(scenario, ["pollux"])
    setup = make_setup(scenario, [scheme], 0)
    found = simulate(setup.workload, setup.cluster, scheme, options=setup.options)
    jct_s = np.mean([each.jct_s for each in found.runs])
    (row,) = (row for row in paper.publications[0].rows if row.run == run)
    assert jct_s == pytest.approx(float(row.paper[0]), rel=TARGET)
