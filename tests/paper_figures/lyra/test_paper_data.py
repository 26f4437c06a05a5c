"""The paper's numbers as data: spot checks, and sums that the paper states itself."""

from __future__ import annotations

import pytest

from instances.workloads.scenario import Scenario
from paper_figures.comparison import Verdict
from paper_figures.lyra import (
    catalogue,
    figure_1,
    figure_9,
    figure_10,
    figure_13,
    figure_14,
    figure_15,
    figure_17,
    table_5,
    table_6,
    table_7,
    table_8,
    table_9,
    table_10,
)
from paper_figures.simulations import Case, Setting

PAPER = {row.name: row.paper for row in table_5.ROWS}


@pytest.mark.parametrize(
    ("row", "queue_gain", "jct_gain"),
    [
        ("Basic, Lyra", 1.53, 1.48),
        ("Advanced, Lyra", 1.67, 1.59),
        ("Heterogeneous, Lyra", 1.58, 1.37),
        ("Ideal, Lyra", 2.66, 1.87),
        ("loaning, Lyra", 1.39, 1.28),
        ("scaling, Lyra", 1.35, 1.38),
    ],
)
def test_table_5_gives_the_gains_that_the_paper_states(
    row: str, queue_gain: float, jct_gain: float
) -> None:
    """Baseline's mean over the row's."""
    baseline = PAPER["Baseline"]
    for place, gain in ((0, queue_gain), (3, jct_gain)):
        assert float(baseline[place] or 0) / float(PAPER[row][place] or 1) == pytest.approx(
            gain, abs=0.006
        )


def test_spot_checks() -> None:
    """A number from each table and figure."""
    assert PAPER["loaning, Random"][-1] == "20.89"
    assert PAPER["scaling, AFS"][6] == "0.95"
    assert table_6.ROWS["Ideal"][2] == ("1273", "9982", "10.93")
    assert table_7.PAPER["Lyra"][2] == "7256"
    assert table_8.ROWS["Lyra"][1][-1] == "223815"
    assert table_9.PAPER[60] == ("1.76", "1.38")
    assert table_10.ROWS["Lyra"][1][-1] == "18"
    assert figure_9.PAPER[3] == "0.990"
    assert figure_10.ON["scaling on, Lyra"][1] == ("0.088", "0.060")
    assert figure_13.PAPER[80] == ("0.26", "1.15", "1.24")
    assert figure_14.PAPER["AFS"][-1] == "2.46"
    assert figure_15.PAPER["Lyra+TunedJobs"][-1] == "2.36"
    assert figure_17.PAPER["scaling off, Random"] == ("0.30", "0.61")


def test_table_8_has_the_labels_of_table_5() -> None:
    """AFS and Pollux are swapped in the paper's Table 8, and put right here."""
    for name in ("Gandiva", "AFS", "Pollux", "Lyra", "Lyra+TunedJobs"):
        of_table_5 = PAPER[f"scaling, {name}"]
        _, of_table_8 = table_8.ROWS[name]
        assert [of_table_8[place] for place in (0, 2, 4, 6)] == [
            of_table_5[place] for place in (1, 2, 4, 5)
        ]


def test_every_table_and_figure_has_its_module() -> None:
    """The catalogue lists what can be made."""
    setting = Setting(scale=0.1, seeds=2)
    for publication in catalogue.ALL:
        module = publication.module
        assert callable(module.compare)
        if publication.is_simulated:
            assert module.cases(setting), publication


def test_inference_demand_is_that_of_figure_1() -> None:
    """The generated demand keeps the hourly curve."""
    assert {entry.verdict for entry in figure_1.compare().entries} == {Verdict.REPRODUCED}


def test_setting_at_the_size_of_the_paper() -> None:
    """443 and 520 servers."""
    assert (Setting(scale=1.0).servers, Setting(scale=1.0).inference_servers) == (443, 520)
    assert (Setting(scale=0.1).servers, Setting(scale=0.1).inference_servers) == (44, 52)
    assert (Setting(scale=1e-9).servers, Setting(scale=1e-9).inference_servers) == (1, 1)


def test_only_lyra_itself_is_held_against_the_optimum() -> None:
    """Other schemes decide otherwise, and their runs are not slowed down."""
    assert Case(scheme="lyra", load=1.0, seed=3).checks_reclaims
    assert not Case(scheme="lyra", scenario=Scenario(all_elastic=True)).checks_reclaims
    assert not Case(scheme="lyra-exact").checks_reclaims
