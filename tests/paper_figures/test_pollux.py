"""What Pollux's own simulator gave, as data, and ours close to it."""

import pytest

from lyra_opt.experiments.simulation.scenario.loading import Change, load_scenario
from lyra_opt.paper_figures.comparison import Source
from lyra_opt.paper_figures.document import find_paper
from tests.draws import sampled
from tests.instances.workloads.published import published
from tests.paper_figures.made_up import made, mean_jct_s

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
    (row,) = (row for row in paper.publications[0].rows if row.run == run)
    assert mean_jct_s(scenario, "pollux") == pytest.approx(float(row.paper[0]), rel=TARGET)
