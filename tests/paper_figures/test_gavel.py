"""What Gavel's own simulator gave, as data, and ours close to it."""

import pytest

from lyra_opt.experiments.simulation.scenario.loading import load_scenario
from lyra_opt.paper_figures.comparison import Source
from lyra_opt.paper_figures.document import find_paper
from tests.instances.workloads.published import published
from tests.paper_figures.made_up import made, mean_jct_s

TARGET = 0.01


@pytest.mark.parametrize("number", [1, 2, 3])
def test_no_number_is_said_to_be_the_papers(number):
    """All are those of its authors' code, and the page says so."""
    comparison = made("gavel", "table", number)
    assert {entry.source for entry in comparison.entries} == {Source.CODE}
    assert "source of the paper's number" in comparison.header()
    assert "not numbers printed in the paper" in find_paper("gavel").introduction[0]


def test_newcomers_wait_in_all_runs():
    """As they do in the simulator whose numbers stand beside ours; FIFO knows nothing else."""
    runs = [run for run in find_paper("gavel").runs.values() if run.scheme != "gavel-fifo"]
    assert all(run.parameters["newcomers_run"] is False for run in runs)


@pytest.mark.parametrize(
    ("run", "number"),
    [("las", 1), ("ftf", 1), ("water-filling", 1), ("makespan-at-once", 2), ("las-at-once", 2)],
)
def test_mean_jcts_are_within_a_hundredth(run, number):
    """Of what Gavel's own simulator gave for the same jobs, GPUs and rounds."""
    paper = find_paper("gavel")
    table = paper.runs[run]
    published(paper.scenarios[table.scenario].called)
    scenario = load_scenario(paper.scenarios[table.scenario].like)
    jct_s = mean_jct_s(scenario, table.scheme, **table.parameters)
    (row,) = (
        row
        for publication in paper.publications
        for row in publication.rows
        if row.run == run and publication.number == number
    )
    assert jct_s == pytest.approx(float(row.paper[0]), rel=TARGET)
