"""The report: its numbers equal those computed by hand, and its files need no others."""

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.figure import Figure

import lyra_opt as lo
from lyra_opt.__main__ import main
from lyra_opt.core.gaps import EXCESS
from lyra_opt.core.picture_styles import house_style
from lyra_opt.experiments.analysis import Analysis
from lyra_opt.experiments.chosen_pictures import drawn
from lyra_opt.experiments.plots.excess import excess_ticks, plot_excess_over_axis
from lyra_opt.experiments.plots.figures import excess_over_axis, over_axis, plot_makers
from lyra_opt.experiments.plots.times import plot_solve_time
from lyra_opt.experiments.report import StudyReport, make_report
from lyra_opt.experiments.solver_differences import solver_differences
from lyra_opt.experiments.store import ResultStore
from lyra_opt.experiments.tables import gap_table
from tests.conftest import assert_one_line_error
from tests.experiments.records import MAXIMISING, make_run, make_runs, make_study
from tests.html_page import assert_needs_no_other_file
from tests.pictures import faults_of
from tests.tables import tables

OPTIMAL, FEASIBLE = lo.Status.OPTIMAL, lo.Status.FEASIBLE
TABLES = tables(__file__)
AXIS = ("reclaim_percent", "reclaim_percent")


def hand_made_runs():
    """Return six instances of one group, a heuristic and an exact method."""
    return make_runs(TABLES["by_hand"])


@pytest.fixture
def folder(tmp_path):
    with ResultStore.create(tmp_path, make_study(14)) as store:
        for run in hand_made_runs():
            store.add(run)
    return tmp_path


def test_summaries_equal_those_computed_by_hand():
    analysis = Analysis(hand_made_runs())
    assert analysis.proofs.optima == {"c1": 10, "c2": 12, "c3": 8, "c5": 0, "c6": 4}
    rows = analysis.gap_table().set_index("configuration")
    assert list(rows.index) == list(TABLES["summary"])
    for configuration, numbers in TABLES["summary"].items():
        found = rows.loc[configuration, list(numbers)].to_dict()
        assert found == pytest.approx(numbers, nan_ok=True)


def test_differences_of_solvers_are_paired_by_instance(folder, run):
    """By hand: objectives 3, 2, 4 and 2, 2, 2; the missing fourth one is left out."""
    objectives = {"slow": (2, 2, 2, None), "quick": (3, 2, 4, 9)}
    runs = [
        make_run(f"c{place}", name, lo.Status.FEASIBLE, objective=objective, known_optimum=None)
        for name, of_solver in objectives.items()
        for place, objective in enumerate(of_solver)
    ]
    table = solver_differences(Analysis(runs))
    (found,) = table.records()
    half = 4.30265 / math.sqrt(3)  # the deviation of the differences 1, 0, 2 is 1
    assert (found["solver"], found["mean_b"], found["difference"]) == ("quick", 3.0, 1.0)
    assert (found["low"], found["high"]) == (
        pytest.approx(1 - half, abs=1e-4),
        pytest.approx(1 + half, abs=1e-4),
    )
    assert (found["change_percent"], found["instances"]) == (50.0, 3)
    assert solver_differences(Analysis(runs), "quick").records()[0]["difference"] == -1.0
    exit_code, printed, _ = run("report", folder, "--baseline", "exact")
    assert exit_code == 1, "some runs failed"
    assert "A is exact, B is the solver" in " ".join(printed.split())
    assert "Differences between solvers" in (folder / "report.html").read_text()
    assert_one_line_error(run("report", folder, "--baseline", "exac"), "did you mean exact?")


@pytest.mark.parametrize(
    ("objectives", "total"), [([], math.nan), ([0, 0], 0.0), ([0, 1], math.inf), ([2, 1], math.inf)]
)
def test_total_excess_where_all_optima_are_0(objectives, total):
    runs = [
        make_run(f"c{number}", "quick", FEASIBLE, objective=objective, dual_bound=0)
        for number, objective in enumerate(objectives)
    ]
    exact = [
        replace(run, configuration="exact", objective=0, status=OPTIMAL, reference=True)
        for run in runs
    ]
    without = make_run("unproved", "quick", FEASIBLE, objective=1)
    row = next(Analysis([*runs, *exact, without]).sums_table().itertuples())
    assert row.configuration == "quick"
    assert row.total_excess_percent == pytest.approx(total, nan_ok=True)


def test_instances_of_files_stand_under_the_name_of_their_group():
    runs = make_runs(TABLES["of_files"], objective=1, family="file", axes=[])
    rows = Analysis(runs).gap_table()
    assert rows.servers.isna().all()
    assert dict(zip(rows.family, rows.instances, strict=True)) == TABLES["files_of_groups"]


def test_no_run_is_dropped_from_a_row():
    runs = hand_made_runs() + make_runs(TABLES["more"])
    quick = next(Analysis(runs).gap_table().itertuples())
    assert (quick.unsupported, quick.without_solution, quick.infeasible) == (1, 1, 1)
    counts = (quick.compared, quick.unproved, quick.without_solution, quick.failed)
    assert sum(counts) + quick.unsupported + quick.infeasible == quick.instances == 9
    assert quick.proved_percent == pytest.approx(100 * 2 / 8)


def test_objectives_of_several_terms_are_not_compared_in_percent():
    """The integer that encodes them says only which is better; of equal ones 0 % are right."""
    of_two = {"problem": "preemption", "variant": "none", "terms": 2}
    runs = make_runs(TABLES["several_terms"], **of_two)
    _, quick = Analysis(runs).gap_table().itertuples()
    assert (quick.compared, quick.several_terms, quick.infinite) == (3, 1, 0)
    assert quick.mean_excess_percent == pytest.approx((0 + 20) / 2)
    assert quick.total_excess_percent == pytest.approx(20)
    assert quick.optimal_percent == pytest.approx(100 / 3)


def test_group_without_any_proved_optimum_has_no_excess():
    runs = [make_run("c", "quick", FEASIBLE, objective=4)]
    (row,) = Analysis(runs).gap_table().itertuples()
    assert math.isnan(row.mean_excess_percent)
    assert math.isnan(row.optimal_percent)
    assert row.mean_excess_at_most_percent == float("inf")
    assert (row.compared, row.unproved) == (0, 1)


def test_excess_when_maximising_is_what_is_missing():
    runs = make_runs(TABLES["maximised"], **MAXIMISING)
    assert Analysis(runs).frame.excess_percent.tolist() == [25.0, 0.0]


def test_groups_are_told_apart_by_family_parameters_size_and_axes():
    analysis = Analysis(make_runs(TABLES["told_apart"]))
    groups, overall = analysis.gap_table(), analysis.overall_table()
    named = ["family", "servers", "reclaim_percent", "instances"]
    assert groups[named].to_numpy().tolist() == TABLES["groups"]
    assert overall[["family", "instances"]].to_numpy().tolist() == TABLES["overall"]


def test_excess_over_an_axis_is_over_the_optimum_where_that_is_proved():
    runs = make_runs(TABLES["over_an_axis"])
    means = over_axis(Analysis(runs), "", "reclaim_percent")
    columns = ["value", "configuration", "excess_percent", "is_proved"]
    assert means[columns].to_numpy().tolist() == [
        [10, "quick", 100.0, False],
        [30, "quick", 25.0, True],
    ]
    plot = excess_over_axis(Analysis(runs), *AXIS)
    assert plot.name == "excess_over_reclaim_percent"
    # An axis of one value is none.
    assert excess_over_axis(Analysis(runs[:2]), *AXIS) is None


def test_means_over_an_axis_have_intervals_above_its_values():
    """By hand: gaps of 0, 10 and 20 %. Marks of two solvers stand above the number itself."""
    runs = [
        run
        for percent in (10, 30)
        for run in make_runs(
            [
                (f"{percent}-{place}", name, FEASIBLE, {"objective": objective})
                for place, objective in enumerate((10, 11, 12))
                for name in ("quick", "slow")
            ],
            family_parameters={"reclaim_percent": percent},
            known_optimum=10,
        )
    ]
    half = 4.30265 * 10 / math.sqrt(3)
    plot = excess_over_axis(Analysis(runs), *AXIS)
    for row in plot.figure.data[""]:
        assert (row["instances"], row["low_percent"], row["high_percent"]) == (
            3,
            pytest.approx(10 - half, abs=1e-3),
            pytest.approx(10 + half, abs=1e-3),
        )
    (axes,) = plot.figure.axes
    assert {float(x) for line in axes.lines for x in line.get_xdata()} == {0.0, 1.0}
    assert len(axes.collections) == 2, "whiskers of each solver"
    assert "Whiskers are 95 % intervals" in plot.caption


def two_groups(larger_percent, **columns):
    """Return a run 1 % off the optimum in one group, and one farther off in the next."""
    pairs = [("near", 1), ("far", larger_percent)]
    sign = -1 if columns else 1
    return [
        make_run(
            group, name, status, family_group=group, wall_time_s=0.01 * percent, **values, **columns
        )
        for group, percent in pairs
        for name, status, values in (
            (f"quick-{group}", FEASIBLE, {"objective": 100 + sign * percent}),
            ("exact", OPTIMAL, {"objective": 100, "dual_bound": 100, "reference": True}),
        )
    ]


def drawn_figures(runs):
    """Return every plot of the runs with its figure, by name."""
    plots = drawn(plot_makers(Analysis(runs)))
    for plot in plots:
        plot.figure.canvas.draw()
    return {plot.name: (plot, plot.figure) for plot in plots}


@pytest.mark.parametrize("larger_percent", [2, 60, 5000])
def test_limits_of_shared_axes_hold_every_panel(larger_percent):
    """Protects the data of later groups from limits that an earlier panel sets for all."""
    runs = two_groups(larger_percent)
    _, figure = drawn_figures(runs)["excess_by_family"]
    for axes in figure.axes:
        bottom, top = axes.get_ylim()
        assert bottom < 0
        assert larger_percent < top < 2 * larger_percent
        assert all(bottom <= tick <= top for tick in axes.get_yticks())
        assert sum(tick > 0 for tick in axes.get_yticks()) >= 3


def test_legends_of_several_panels_list_the_solvers_of_all():
    """Protects readers from marks that no legend explains, and from legends of another order."""
    figures = drawn_figures(two_groups(60))
    quick = ["quick-near", "quick-far"]
    for name, listed in {"solve_time": [*quick, "exact"], "excess_by_family": quick}.items():
        _, figure = figures[name]
        assert [text.get_text() for text in figure.legends[0].get_texts()] == listed
        assert [axes.get_title() for axes in figure.axes] == ["near", "far"] or name != "solve_time"


def test_titles_of_panels_are_words_without_raw_keys():
    """Protects titles and labels from keys of study files, and what families share from repeats."""
    groups = {
        "two": [{"colour": colour, "load_percent": 5} for colour in ("red", "green")],
        "many files": [{"file": "a.json"}],
    }
    runs = [
        replace(
            run,
            family="file" if group == "many files" else "made",
            family_group=group,
            family_parameters=of_family,
            axes={},
            cell=f"{group} {of_family}",
            wall_time_s=None,
        )
        for group, of_families in groups.items()
        for of_family in of_families
        for run in two_groups(60)[:2]
    ]
    _, figure = drawn_figures(runs)["excess_by_family"]
    found = [
        (axes.get_title(), [label.get_text() for label in axes.get_xticklabels()])
        for axes in figure.axes
    ]
    assert found == [
        ("two, load 5 %", ["made, colour red", "made, colour green"]),
        ("many files", ["files"]),
    ]


def test_words_on_an_axis_keep_the_order_of_the_study():
    """Protects an axis such as the congestion of links from the order of the alphabet."""
    values = ["shipped", "congested-1", "another", 20, 3]
    runs = [
        make_run(
            str(each), "quick", FEASIBLE, family_parameters={"network": each}, axes=["network"]
        )
        for each in values
    ]
    runs = [replace(run, objective=2, dual_bound=1) for run in runs]
    means = over_axis(Analysis(runs), "", "network")
    assert list(means.value) == [3, 20, "shipped", "congested-1", "another"]


def test_a_maximised_objective_falls_short_of_its_optimum(tmp_path, monkeypatch):
    """Protects the sense: nothing is above the greatest value, in no headline, plot or table."""
    minimised, maximised = two_groups(60), two_groups(60, **MAXIMISING)
    texts = {}
    for name, runs in {
        "min": minimised,
        "max": maximised,
        "both": minimised[:2] + maximised[2:],
    }.items():
        folder = tmp_path / name
        settings = {"problem": "reclaim", "headline": ["quick-far"]}
        with ResultStore.create(folder, replace(make_study(4), settings=settings)) as store:
            for position, run in enumerate(runs):
                store.add(replace(run, position=position))
        main(["report", str(folder)])
        texts[name] = (folder / "report.html").read_text()
    assert "60.0 % over the proved optimum on average" in texts["min"]
    assert "Left out of the excess" in texts["min"]
    assert "60.0 % below the proved optimum on average" in texts["max"]
    assert "60.0 % below the proved optimum on average" in texts["both"]
    assert "Gap to the proved optimum (%)" in texts["both"]
    for name in ("max", "both"):
        page = re.sub(r"<[^>]*>", "", texts[name]).lower()
        assert "excess" not in page
        assert " over the proved" not in page
    plot, figure = drawn_figures(maximised)["excess_by_family"]
    assert plot.title == "Shortfall from the proved optimum, by family"
    assert figure.axes[0].get_ylabel() == "Shortfall from the proved optimum (%)"


def test_ticks_are_round_numbers_within_the_axis():
    """Protects small ranges from an axis without labels or with powers of ten alone."""
    assert excess_ticks(60) == [0, 2, 4, 6, 8, 10, 15, 20, 30, 50]
    assert excess_ticks(300) == [0, 5, 10, 20, 50, 100, 200]
    assert excess_ticks(2e5) == [0, 10, 100, 1000, 10000, 100000]
    assert excess_ticks(1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


def test_tables_and_plots_are_written(folder, capsys):
    assert main(["report", str(folder)]) == 1, "some runs failed"
    printed = capsys.readouterr().out
    assert "3 of 6" in printed
    assert "1 optimum not proved, 1 optimum 0 missed, 1 failed" in printed
    assert "12 of 14 runs are stored: 5 optimal, 6 feasible, 1 error." in printed
    assert "The study is not complete." in printed
    assert re.search(r"5 optima are proved: .* 1 of them is 0\.\n", printed)
    first = pd.read_csv(folder / "gap_table.csv").iloc[0]
    assert (first.configuration, first.max_excess_percent, first.infinite) == ("quick", math.inf, 1)
    markdown = (folder / "gap_table.md").read_text().splitlines()
    assert markdown[0].startswith("| Family | Solver | Servers | Reclaim (%) |")
    assert markdown[2].startswith("| made | quick | 10 | 30 | 8.3 | ∞ | 40.0 | 3.00 | 3 of 6 |")
    plots = {path.name for path in (folder / "plots").iterdir()}
    names = ("cactus", "excess_by_family", "solve_time")
    assert plots == {f"{name}{suffix}" for name in names for suffix in (".svg", ".csv")}


def test_a_picture_of_a_study_for_a_paper(folder, tmp_path):
    """One of the report, by its name; every proof is a row of its data."""
    lo.plot_study(folder, "cactus", style="paper", file=tmp_path / "cactus.pdf")
    proofs = pd.read_csv(tmp_path / "cactus.csv")
    assert len(proofs) == Analysis(hand_made_runs()).frame.proof_time_s.notna().sum()
    for plot in drawn(make_report(folder).plot_makers()):
        assert plot.figure.data, plot.name
    with pytest.raises(lo.UserError, match="picture cactos: .* did you mean cactus"):
        lo.plot_study(folder, "cactos")


def test_only_the_chosen_picture_is_drawn_and_only_names_that_exist_are_suggested(
    folder, run, tmp_path, monkeypatch
):
    """The name of a problem or an axis is not known before a study is run."""
    file = tmp_path / "a.pdf"
    refused = run("report", folder, "--plot", file, "--picture", "profile")
    assert_one_line_error(refused, "these results have: excess_by_family, solve_time, cactus\n")
    words = ("study", "reclaim-gap", "--out", tmp_path / "new", "--plot", file)
    assert_one_line_error(run(*words, "--picture", "profile"), "did you mean profiles_PROBLEM?")
    for name in ("_solve_time", "_excess", "_solutions"):
        monkeypatch.setattr(f"lyra_opt.experiments.plots.figures.{name}", pytest.fail)
    lo.plot_study(folder, "cactus", style="paper")


def test_labels_of_many_sizes_do_not_overlap():
    def labels(*sizes):
        rows = [("quick", size, "any", time_s) for size in sizes for time_s in (1.0, 2.0, 3.0)]
        frame = pd.DataFrame(rows, columns=["configuration", "size", "family_label", "time_s"])
        axes = Figure().subplots()
        plot_solve_time(frame, ["quick"], "servers", axes)
        return [float(tick) for tick in axes.get_xticks()]

    assert labels(10, 20, 50, 100, 200) == [10, 20, 50, 100, 200]
    assert labels(10, 99, 100, 101, 200) == [10, 99, 200]


def test_lines_join_only_what_is_over_the_same_families():
    """Protects readers from a trend that is a change of families, or of words."""

    def joined(values, families):
        means = pd.DataFrame(
            {
                "configuration": "quick",
                "value": values,
                "excess_percent": 1.0,
                "low_percent": 0.5,
                "high_percent": 1.5,
                "is_proved": True,
                "families": [frozenset(name) for name in families],
            }
        )
        axes = Figure().subplots()
        plot_excess_over_axis(means, values, ["quick"], axes)
        return [len(line.get_xdata()) for line in axes.lines if line.get_linestyle() != "None"]

    assert max(joined([1, 2, 3, 4], ["a", "a", "b", "b"])) == 2
    assert max(joined([1, 2, 3, 4], ["a", "a", "a", "a"])) == 4
    assert joined(["near", "far"], ["a", "a"]) == []


@pytest.mark.parametrize(("percent", "scale"), [([1, 2, 30], "linear"), ([1, 2, 500], "symlog")])
def test_an_outlier_bends_the_axis_instead_of_pressing_others_flat(percent, scale):
    """Protects the others where one solver is far off."""
    solvers = ["a", "b", "c"]
    means = pd.DataFrame(
        {"configuration": solvers, "value": 1, "excess_percent": percent, "is_proved": True}
    ).assign(families=[frozenset("x")] * 3, low_percent=math.nan, high_percent=math.nan)
    axes = Figure().subplots()
    plot_excess_over_axis(means, [1], solvers, axes)
    assert axes.get_yscale() == scale


def test_page_and_plots_stand_alone(folder):
    """Plots are well-formed, ids are unique, references lead to them, and texts are escaped."""
    main(["report", str(folder)])
    ids = []
    for path in sorted((folder / "plots").glob("*.svg")):
        root = ElementTree.fromstring(path.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        ids += [found for element in root.iter() if (found := element.get("id"))]
        for reference in re.findall(r'(?:url\(|href=")#([^)"]+)', path.read_text()):
            assert reference in ids
    assert len(ids) == len(set(ids))
    page = (folder / "report.html").read_text()
    assert_needs_no_other_file(page)
    assert "it &lt;broke&gt;" in page
    assert "Made &lt;by&gt; hand." in page


def test_same_store_gives_the_same_bytes(folder):
    main(["report", str(folder)])
    written = [
        path for path in folder.rglob("*") if path.suffix in (".csv", ".md", ".svg", ".html")
    ]
    first = {path: path.read_bytes() for path in written}
    assert len(first) == 11
    main(["report", str(folder)])
    assert {path: path.read_bytes() for path in written} == first


def test_contradiction_is_reported_loudly(folder, capsys):
    with ResultStore.open(folder) as store:
        store.add(make_run("c1", "boasting", OPTIMAL, position=12, objective=9, dual_bound=9))
    assert main(["report", str(folder)]) == 1
    line = "c1: boasting found objective 9, but exact (optimal) has dual bound 10"
    assert f"CONTRADICTION: {line}" in capsys.readouterr().err
    page = (folder / "report.html").read_text()
    assert "Results contradict one another" in page
    assert line in page


@pytest.mark.parametrize(("rows", "headline"), TABLES["headlines"])
def test_no_headline_is_infinite(rows, headline):
    """Also of a study that has just begun, or where an optimum is 0 or has no bound."""
    runs = make_runs(TABLES[rows] if isinstance(rows, str) else rows)
    report = StudyReport(
        study=make_study(len(runs)),
        analysis=Analysis(runs),
        headline_solvers=["quick"],
        contradictions=[],
    )
    assert report.headlines() == [headline]


def test_what_waits_for_a_bound_has_no_number():
    """Or the tables of an interrupted study would say that a solver may be infinitely bad."""
    analysis = Analysis([make_run("c", "quick", FEASIBLE, objective=4)])
    shown = gap_table(analysis.family_table(), EXCESS)
    assert list(next(each.cells for each in shown.columns if each.title == "Mean at most (%)")) == [
        "–"
    ]


def test_times_stand_at_the_sizes_of_their_instances():
    """Marks of several solvers are not shifted, in a paper either."""
    runs = make_runs(
        [
            (str(place), name, FEASIBLE, {"objective": 10 + place})
            for place in range(3)
            for name in ("quick", "slow")
        ],
        wall_time_s=1.0,
    )
    with house_style("paper"):
        plots = {plot.name: plot for plot in drawn(plot_makers(Analysis(runs)))}
    figure = plots["solve_time"].figure
    assert faults_of(figure) == []
    assert {x for axes in figure.axes for line in axes.lines for x in line.get_xdata()} == {10}
