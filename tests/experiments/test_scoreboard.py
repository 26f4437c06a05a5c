"""The scoreboard of the instance library: its numbers equal those computed by hand."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from lyra_opt.core.picture_styles import house_style
from lyra_opt.core.result import Status
from lyra_opt.experiments.analysis import Analysis
from lyra_opt.experiments.chosen_pictures import drawn
from lyra_opt.experiments.intervals import bootstrap_interval
from lyra_opt.experiments.page import PAGE
from lyra_opt.experiments.plots.profiles import profile_makers, time_ratios
from lyra_opt.experiments.proofs import find_contradictions
from lyra_opt.experiments.report import write_report
from lyra_opt.experiments.scoreboard import RESAMPLES, mean_with_interval, scoreboard_of
from lyra_opt.experiments.store import ResultStore
from lyra_opt.instances.library import library
from lyra_opt.instances.library.documents import Grade
from tests.experiments.records import make_run, make_study
from tests.tables import tables

OPTIMAL, FEASIBLE, UNKNOWN = Status.OPTIMAL, Status.FEASIBLE, Status.UNKNOWN
TABLES = tables(__file__)
LIMIT_S = 3.0

NAMES = ("lyra-figure-5", "lyra-figure-6")
OTHER = "hurt-first"


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """Let the library know what the tests say, whatever its record of the day has."""
    best = library().known[NAMES[0]]
    made = {
        NAMES[0]: replace(best, id=NAMES[0], grade=Grade.EASY, best_known=10, best_bound=10),
        NAMES[1]: replace(best, id=NAMES[1], grade=Grade.OPEN, best_known=20, best_bound=16),
    }
    monkeypatch.setitem(vars(library()), "known", made)
    return made


def of_library(name, solver, status, **columns):
    """Return the row of a run on an instance of the library, within three seconds."""
    plain = {
        "family": "library",
        "family_group": "reclaim",
        "family_parameters": {"library": name},
        "axes": [],
        "content_sha256": library().entry(name).sha256,
        "time_limit_s": LIMIT_S,
        "certify": False,
        "wall_time_s": None if status is Status.UNSUPPORTED else LIMIT_S,
    }
    return make_run(f"library library={name} seed=0", solver, status, **(plain | columns))


def hand_made_runs():
    """Return runs of a method that proves one of two optima in 1 s, and of others."""
    return [
        of_library(name, solver, Status(status), **columns)
        for name, solver, status, columns in TABLES["by_hand"]
    ]


def board(runs):
    found = scoreboard_of(make_study(len(runs)), Analysis(runs))
    assert found is not None
    return found


def test_numbers_are_those_computed_by_hand():
    """Without a proof the limit counts; without a solution 100 %; what is declined does not."""
    table = board(hand_made_runs()).table.set_index(["grade", "configuration"])
    tree, rule, half = (table.loc["all grades", name] for name in ("tree", "rule", "half"))
    assert list(table.loc["all grades"]["rank"]) == [1, 2, 3]
    assert tree.time_s == pytest.approx(math.sqrt((1 + 1) * (1 + 3)) - 1)
    assert rule.time_s == pytest.approx(LIMIT_S)
    assert half.time_s == pytest.approx(LIMIT_S)
    assert (tree.proved_percent, rule.proved_percent) == (50, 0)
    assert (tree.gap_to_best_percent, tree.gap_to_bound_percent) == (0, pytest.approx(25 / 2))
    assert rule.gap_to_best_percent == pytest.approx((20 + 100) / 2)
    assert half.gap_to_best_percent == 100
    assert [(each.instances, each.of) for each in (tree, rule, half)] == [(2, 2), (2, 2), (1, 2)]
    assert table.loc["easy", "tree"].time_s == pytest.approx(1)
    assert table.loc["open", "tree"].gap_to_bound_percent == pytest.approx(25)
    assert ("open", "half") not in table.index


def test_equal_ones_share_a_rank_and_partial_ones_are_in_brackets():
    first, second = NAMES
    runs = [
        *hand_made_runs(),
        of_library(first, "same", FEASIBLE, objective=12),
        of_library(second, "same", UNKNOWN),
    ]
    shown = {each.title: each.cells for each in board(runs).shown("reclaim").columns}
    ranks = dict(zip(shown["Solver"][:4], shown["Rank"][:4], strict=True))
    assert ranks == {"tree": "1", "rule": "2", "same": "2", "half": "(4)"}
    assert shown["Grade"][0] == "all grades, 2 instances"
    assert shown["Time to proof (s)"][0] == "1.83", "two instances have no interval"


def test_late_answers_count_as_runs_without_a_solution():
    """Those after the limit and its tolerance, whatever they claim; rows say why they are empty."""
    first, second = NAMES
    proof = {"objective": 10, "dual_bound": 10}
    runs = [
        of_library(first, "slow", OPTIMAL, **proof, wall_time_s=LIMIT_S + 0.2),
        of_library(second, "slow", UNKNOWN, stopped_by="time"),
        of_library(first, "just", OPTIMAL, **proof, wall_time_s=LIMIT_S + 0.1),
    ]
    found = board(runs)
    table = found.table.set_index(["grade", "configuration"]).loc["all grades"]
    assert list(table.loc["slow", ["time_s", "proved_percent", "gap_to_best_percent"]]) == [
        *(pytest.approx(LIMIT_S), 0, 100)
    ]
    assert table.loc["just", "proved_percent"] == 100
    shown = {each.key: each.cells for each in found.results_of("slow").columns}
    assert shown["status"] == ("unknown", "unknown")
    assert shown["objective"] == ("–", "–")
    assert shown["remark"] == ("late: optimal after 3.20 s", "stopped by its time limit")


def test_an_instance_without_a_solution_has_no_gap(known):
    """Neither a proof that there is none nor a run that finds none is 100 % off."""
    known[NAMES[1]] = replace(known[NAMES[1]], best_known=None, best_bound=None)
    runs = [
        of_library(NAMES[1], solver, status, objective=None, dual_bound=None)
        for solver, status in (("prover", Status.INFEASIBLE), ("rule", Status.UNKNOWN))
    ]
    assert set(board(runs).frame.gap_to_best_percent) == {0.0}


def test_what_a_run_finds_beyond_the_record_counts(known):
    """As the best known of all; and is said, so that it can be handed in."""
    runs = [*hand_made_runs(), of_library(NAMES[1], "new", FEASIBLE, objective=18)]
    found = board(runs)
    table = found.table.set_index(["grade", "configuration"])
    assert table.loc["open", "tree"].gap_to_best_percent == pytest.approx(100 * 2 / 18)
    assert found.better_than_record() == [f"{NAMES[1]}: new found 18, the record is 20"]
    assert board(hand_made_runs()).better_than_record() == []
    del known[NAMES[1]]
    assert "not graded" in set(board(runs).table.grade)


def test_a_bound_that_the_record_refutes_is_a_contradiction():
    wrong = of_library(NAMES[0], "wrong", OPTIMAL, objective=11, dual_bound=11)
    (contradiction,) = find_contradictions([*hand_made_runs(), wrong])
    assert "wrong (optimal) has dual bound 11" in contradiction


def test_the_record_speaks_of_the_same_content_alone():
    """A file of the name with another content has another optimum."""
    other = of_library(
        NAMES[0], "rule", FEASIBLE, objective=12, content_sha256="0" * 64, wall_time_s=0.1
    )
    assert Analysis([other]).frame.excess_over_best_percent.tolist() == [0.0]


def test_intervals_cover_the_mean_as_often_as_they_say():
    """95 % of them, or a little less: the samples are small."""
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        low, high = bootstrap_interval(generator.exponential(size=40), RESAMPLES)
        covered += low <= 1 <= high
    assert 0.86 <= covered / 200 <= 0.99
    assert bootstrap_interval(np.ones(5), RESAMPLES) == (1, 1)
    alone = mean_with_interval("mean", pd.Series([1.0]))
    assert all(map(math.isnan, (alone["mean_low"], alone["mean_high"])))


def test_profiles_are_over_the_fastest_proof_of_each_instance():
    frame = pd.DataFrame(
        {"cell": ["a", "a", "a", "b", "b"], "proof_time_s": [2.0, 0.5, None, None, None]}
    )
    ratios = time_ratios(frame)
    assert ratios[:2].tolist() == [4, 1]
    assert ratios[2:].isna().all()
    (tree,) = (run for run in hand_made_runs() if run.status is OPTIMAL)
    other = replace(tree, configuration="other")
    (plot,) = drawn(profile_makers(board([*hand_made_runs(), other])))
    assert plot.name == "profiles_reclaim"
    for text in ("tree", "rule", "Time to proof / that of the fastest solver", "Gap to the best"):
        assert re.search(re.escape(text), plot.svg)
    # All proofs take the same time, and the axis has numbers all the same.
    assert plot.figure.axes[0].get_xlim()[1] >= 10


def test_profiles_without_a_panel_that_says_nothing_and_without_marks_on_their_axis():
    """One proving solver is always the fastest; exact solvers are not called heuristics."""
    with house_style("paper"):
        (plot,) = drawn(profile_makers(board(hand_made_runs())))
    (axes,) = plot.figure.axes
    assert axes.get_title().startswith("Solutions,")
    assert "heuristic" not in plot.caption
    for line in axes.lines:
        xs = line.get_xdata()[line.get_markevery()]
        assert len(xs)
        assert all(0 < x < axes.get_xlim()[1] for x in xs)


def test_the_report_of_several_problems(tmp_path):
    """Page, table and Markdown have it, with limit and record; solvers go by problem and name."""
    network = of_library(
        OTHER, "tree", FEASIBLE, objective=5, problem="network", variant="epoch",
        family_group="network", position=9,
    )  # fmt: skip
    runs = [*hand_made_runs(), network]
    with ResultStore.create(tmp_path, make_study(len(runs))) as store:
        for run in runs:
            store.add(run)
    assert write_report(tmp_path) == 1, "some runs failed"
    page = (tmp_path / PAGE).read_text()
    assert 'id="scoreboard-reclaim"' in page
    assert 'id="scoreboard-network"' in page
    table = pd.read_csv(tmp_path / "scoreboard.csv")
    of_tree = table[(table.configuration == "tree") & (table.grade == "all grades")]
    assert dict(zip(of_tree.problem, of_tree.of, strict=True)) == {"reclaim": 2, "network": 1}
    markdown = (tmp_path / "scoreboard.md").read_text()
    assert "of at most 3 s each on 3 instances" in markdown
    assert library().records[-1].date in markdown
    assert "![Performance profiles, reclaim](plots/profiles_reclaim.svg)" in markdown
    assert (tmp_path / "plots" / "profiles_reclaim.svg").exists()


def test_other_studies_have_no_scoreboard():
    run = make_run("c1", "rule", FEASIBLE, objective=1)
    assert scoreboard_of(make_study(1), Analysis([run])) is None
