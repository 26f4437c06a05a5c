"""The page of replays shows what the store holds, for every kind of cluster."""

import json
import math
import re
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.__main__ import main
from lyra_opt.core.numbers import HOUR_S, three_digits
from lyra_opt.core.picture_styles import house_style
from lyra_opt.experiments.intervals import bootstrap_interval, student_interval
from lyra_opt.experiments.random_inputs import RESAMPLES
from lyra_opt.experiments.records import ReplayStatus
from lyra_opt.experiments.simulation.measuring.comparison import differences, differences_table
from lyra_opt.experiments.simulation.measuring.measures import (
    TIME_PARTS,
    VariantRuns,
    assumptions_of,
    variants_of,
)
from lyra_opt.experiments.simulation.running.replays import load_replays
from lyra_opt.experiments.simulation.showing import results
from lyra_opt.experiments.simulation.showing.decision import decision
from lyra_opt.experiments.simulation.showing.distributions import distributions, points
from lyra_opt.experiments.simulation.showing.means import COLOURS, time_parts_plot
from lyra_opt.experiments.simulation.showing.report import headline
from lyra_opt.experiments.simulation.showing.timelines import (
    MOST_JOBS,
    Window,
    chosen_jobs,
    window_of,
)
from lyra_opt.experiments.store import STORE_FILE, ResultStore
from tests.conftest import assert_one_line_error
from tests.experiments.records import make_replay
from tests.experiments.simulation.conftest import TIME_PARTS as KEYS
from tests.experiments.simulation.conftest import changes, schemes
from tests.html_page import Page
from tests.tables import tables

TABLES = tables(__file__)
CLUSTERS = TABLES["clusters"]
"""Small scenarios, one of each kind that pages tell apart."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the folder of results with a page for each of `CLUSTERS`."""
    found = {}
    for name, arguments in CLUSTERS.items():
        found[name] = tmp_path_factory.mktemp("replays") / name
        written = ["--out", str(found[name]), "--processes", "1"]
        assert main(["simulate", *arguments.split(), *written]) == 0
    return found


@pytest.mark.parametrize("kind", CLUSTERS)
def test_pages_are_whole_and_need_no_other_file(folders, kind):
    """All links of the page lead to anchors on the page."""
    text = (folders[kind] / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert set(page.addresses) <= {f"#{name}" for name in page.ids}
    assert "nan" not in re.sub(r"<[^>]*>", " ", text).lower().split()


@pytest.mark.parametrize("kind", CLUSTERS)
def test_every_plot_is_a_file_of_its_own_and_names_every_scheme(folders, kind):
    """Every legend names all schemes."""
    plots = sorted((folders[kind] / "plots").glob("*.svg"))
    assert {"distributions.svg", "over_time.svg", "jobs.svg"} <= {path.name for path in plots}
    named = load_replays(folders[kind]).study.settings["schemes"]
    for path in plots:
        texts = {element.text for element in ElementTree.parse(path).iter()}
        shown = named[1:] if path.name.startswith("differences") else named
        assert set(shown) <= texts, path.name


def test_every_plot_has_its_data_and_a_picture_for_papers(folders, run, tmp_path):
    """In the style that is asked for; one picture alone has its name and its data."""
    folder, one = tmp_path / "copy", tmp_path / "one.pdf"
    shutil.copytree(folders["loans"], folder)
    words = ("--style", "paper", "--pictures", "pdf", "--plot", one, "--picture", "over_time")
    assert run("report", folder, *words)[0] == 0
    names = {path.stem for path in (folder / "plots").glob("*.svg")}
    for name in names:
        assert len(pd.read_csv(folder / "plots" / f"{name}.csv")) > 0
        assert (folder / "plots" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    assert one.read_bytes() == (folder / "plots" / "over_time.pdf").read_bytes()
    assert one.with_suffix(".csv").read_text() == (folder / "plots" / "over_time.csv").read_text()
    rows = pd.read_csv(folder / "plots" / "time_parts.csv")
    summed = rows[rows.scheme.notna()].groupby("scheme").mean_s.sum()
    measured = lo.load_study(folder).groupby("scheme").jct_mean_s.mean()
    assert summed.to_dict() == pytest.approx(measured.to_dict())


def test_headline_over_seeds_is_a_paired_t_interval(folders):
    """Each seed of the generated workload draws its own jobs, so seeds are the sample.

    Two seeds are too few for an interval: sentences, tables and the picture say so.
    """
    replays = load_replays(folders["loans"])
    (of_jct, _) = differences(replays.variants[0], replays.jobs)
    assert (of_jct.random.unit, of_jct.pairs) == ("seeds", 2)
    assert "too few seeds for an interval, so it may be chance" in of_jct.in_words()
    assert of_jct.in_words() in (folders["loans"] / "report.html").read_text(encoding="utf-8")
    cells = differences_table([of_jct]).rows()[0]
    assert [cell for cell in cells if "–" in cell] == ["–"] * 4
    drawn = (folders["loans"] / "plots" / "differences.svg").read_text(encoding="utf-8")
    assert "too few seeds" in drawn
    assert "Difference from fifo (%)" in drawn
    for picture in ("over_time", "jobs"):
        text = (folders["loans"] / "plots" / f"{picture}.svg").read_text(encoding="utf-8")
        assert "seed 0" in text, "it shows one of two seeds"


def fail(folder, scheme, seeds):
    """Turn the replays of a scheme with these seeds into failed ones."""
    with ResultStore.open(folder) as store:
        study, runs = store.study, store.runs()
    lost = {"status": ReplayStatus.ERROR, "message": "no memory", "figures": None, "setting": {}}
    (folder / STORE_FILE).unlink()
    with ResultStore.create(folder, study) as store:
        for run in runs:
            is_lost = run.scheme == scheme and run.seed in seeds
            store.add(replace(run, **lost) if is_lost else run)


def test_schemes_that_lack_seeds_are_marked_everywhere(three_jobs, run, tmp_path):
    """Every table, sentence and picture says that SJF, though faster, has one of three seeds.

    It is compared with FIFO on that seed, but is nowhere marked as the best.
    """
    out, label = tmp_path / "out", "sjf (1 of 3 seeds)"
    given = changes("seeds=3", "bounds=true")
    assert three_jobs(*given, *schemes("fifo", "sjf", "tiresias"), "--out", out)[0] == 0
    fail(out, "sjf", {0, 2})
    fail(out, "tiresias", {0, 1, 2})
    code, printed, err = run("report", out)
    assert code == 1
    assert "failed: sjf seed=2: no memory" in err
    assert len(re.findall(re.escape(label), printed)) >= 3
    title = f"; not every replay finished: {label}, tiresias (0 of 3 seeds)"
    for form, begin in (("markdown", "scenario"), ("latex", "% scenario")):
        text = run("report", out, "--format", form)[1]
        assert text.startswith(begin)
        assert title in text.splitlines()[0]
        assert "proved lower bound (" not in text, "it averages the seeds of fifo"
        assert text.count(label) >= 3, "in the title, the means and the differences"
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "5 of 9 replays failed" in page
    assert page.count(f"</span>{label}") == 4
    assert "on 1 of 3 seeds; " in page
    assert 'class="number best"' not in page
    for picture in ("distributions", "time_parts", "differences"):
        assert label in (out / "plots" / f"{picture}.svg").read_text(encoding="utf-8")
    replays = load_replays(out)
    assert [each.seeds for each in differences(replays.variants[0], replays.jobs)] == [1, 1]
    assert replays.variants[0].first_seed_in_words == "seed 1"


def test_the_page_is_written_before_anything_is_printed(three_jobs, tmp_path, monkeypatch):
    """A reader of the output that stops early, such as ``head``, does not lose the page."""
    found = []

    def printed(replays, *_):
        found.append((replays.folder / "report.html").exists())

    monkeypatch.setattr(results, "print_replays", printed)
    assert three_jobs(*schemes("fifo"), "--out", tmp_path / "out")[0] == 0
    assert found == [True]


def test_headline_of_one_seed_pairs_jobs(folders):
    """The interval pairs jobs, is close to the normal interval, and is explained."""
    replays = load_replays(folders["racks"])
    of_jct, _ = differences(replays.variants[0], replays.jobs)
    first, second = (replays.jobs(run).set_index("job_id").jct_s for run in replays.runs)
    changes = second - first
    assert of_jct.random.unit == "jobs"
    assert of_jct.pairs == len(changes)
    assert of_jct.difference_s == pytest.approx(changes.mean())
    error = changes.std(ddof=0) / math.sqrt(len(changes))
    assert of_jct.paired.low == pytest.approx(changes.mean() - 1.96 * error, abs=0.6 * error)
    assert of_jct.paired.high == pytest.approx(changes.mean() + 1.96 * error, abs=0.6 * error)
    page = (folders["racks"] / "report.html").read_text(encoding="utf-8")
    assert "of one seed only a bootstrap" in page
    replays = load_replays(folders["types"])
    of_jct, _ = differences(replays.variants[0], replays.jobs)
    diff = lo.diff(folders["types"], by=("scheme", "hadar", "gavel-las"))
    row = diff.measures.set_index("measure").loc["jct_mean_s"]
    assert (row.low, row.high) == of_jct.paired[3:5]
    assert "of one seed only a bootstrap" in diff.method


@pytest.mark.parametrize(("changed", "told"), TABLES["seeds_of_one_trace"].values())
def test_seeds_of_one_trace_are_no_sample_of_jobs(changed, told, run, tmp_path):
    """Seeds that do not draw jobs give a range, not a confidence interval."""
    trace, out = tmp_path / "trace.csv", tmp_path / "out"
    rows = [f"j{number},{60 * number},{1 + number % 4},{900 + 77 * number}" for number in range(30)]
    trace.write_text("\n".join(["job_id,submit_time_s,gpus,duration_s", *rows]))
    asked = {"cluster.servers": 1, "seeds": 3, **changed}
    given = (*changes(*(f"{key}={asked[key]}" for key in asked)), *schemes("fifo", "lyra"))
    exit_code, printed, err = run("simulate", "plain", "--jobs", trace, *given, "--out", out)
    assert exit_code == 0, err
    printed = " ".join(printed.split())
    assert told in printed
    assert "jobs.bootstrap.days" in printed
    replays = load_replays(out)
    means = {(run.scheme, run.seed): run.figures["jct_mean_s"] for run in replays.runs}
    of_seed = [means["lyra", seed] - means["fifo", seed] for seed in range(3)]
    of_jct, _ = differences(replays.variants[0], replays.jobs)
    assert of_jct.paired[3:5] == (min(of_seed), max(of_seed))
    page = (out / "report.html").read_text(encoding="utf-8")
    assert told in page
    assert "confidence intervals of the difference" not in page
    assert of_jct.interval_in_words() in page
    assert ("by seed " in of_jct.interval_in_words()) == bool(changed)


def test_draws_of_days_are_the_sample(run, tmp_path):
    """All schemes replay the same draws, and every table shows one interval, from any baseline."""
    trace, out = tmp_path / "trace.csv", tmp_path / "out"
    rows = [f"j{n},{4000 * n},{1 + n % 4},{900 + 3500 * (n % 7)}" for n in range(200)]
    trace.write_text("\n".join(["job_id,submit_time_s,gpus,duration_s", *rows]))
    given = changes("cluster.servers=1", "seeds=3", "jobs.bootstrap.days=9")
    given += ["--jobs", trace]
    exit_code, printed, err = run(
        "simulate", "plain", *given, *schemes("fifo", "sjf"), "--out", out
    )
    assert exit_code == 0, err
    text = " ".join(printed.split())
    assert "from the spread of 3 draws of its days" in text
    assert "9 days, sampled from the 9 days of the jobs in blocks of 2 days." in text
    replays = load_replays(out)
    of_jct, _ = differences(replays.variants[0], replays.jobs)
    means = [
        np.array([run.figures["jct_mean_s"] for run in replays.runs if run.scheme == scheme])
        for scheme in ("fifo", "sjf")
    ]
    expected = of_jct.random.resampling.interval(means[1] - means[0])
    assert of_jct.paired[3:5] == expected
    shown = three_digits(expected[0] / of_jct.unit.seconds)
    assert f"{shown} {of_jct.unit.symbol}" in printed
    found = json.loads(run("diff", out, "--by", "scheme", "fifo", "sjf", "--format", "json")[1])
    (row,) = (each for each in found["measures"] if each["measure"] == "jct_mean_s")
    assert found["random"] == "draws"
    assert (row["low"], row["high"]) == pytest.approx(expected)
    turned, _ = differences(replays.variants[0], replays.jobs, "sjf")
    assert turned.paired[3:5] == pytest.approx((-expected[1], -expected[0]))
    assert "Differences from sjf:" in run("report", out, "--baseline", "sjf")[1]
    assert_one_line_error(run("report", out, "--baseline", "fif"), "did you mean fifo?")
    bounds = json.loads(run("bound", "plain", *given, "--scheme", "fifo", "--format", "json")[1])
    by_seed = {each["seed"]: each["jct_mean_bound_s"] for each in bounds}
    assert all(by_seed[seed] <= mean for seed, mean in enumerate(means[0]))


def test_intervals_of_values_that_do_not_vary_are_points():
    """Schemes with equal results cause no division by zero."""
    assert student_interval(np.zeros(3)) == (0.0, 0.0)
    assert bootstrap_interval(np.full(5, 2.0), RESAMPLES) == (2.0, 2.0)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=3000))
def test_drawn_distributions_lie_on_the_exact_ones(values):
    """Every drawn point is on the exact curve, and both ends are drawn."""
    found, shares = points(np.array(values, dtype=np.float64))
    ordered = sorted(values)
    assert len(found) <= 400
    assert (found[0], found[-1], shares[-1]) == (ordered[0], ordered[-1], 1)
    for value, share in zip(found, shares, strict=True):
        assert ordered[round(share * len(ordered)) - 1] == value


def test_a_captured_decision_is_drawn_as_two_solvers_take_it(folders, figure_5_document, tmp_path):
    """Only files inside the store or the named folder are read; missing files are ignored."""
    name = "reclaim-contested-lyra-at-300-s.json"
    replays = load_replays(folders["loans"])
    store = replace(replays, folder=tmp_path / "store")
    elsewhere = tmp_path / "elsewhere"
    for folder in (store.folder, elsewhere):
        folder.mkdir()
    (elsewhere / name).write_text(json.dumps(figure_5_document))
    (store.folder / "linked").symlink_to(elsewhere)

    def of(folder, file=name):
        files = {"captured_in": str(folder), "captured_files": [file]}
        return [replace(run, setting=dict(run.setting) | files) for run in replays.runs]

    outside = [of(elsewhere), of(store.folder / "linked"), of(".", f"../elsewhere/{name}")]
    outside += [of("\0"), of(store.folder, str(elsewhere / name)), of(tmp_path / "gone")]
    assert [decision(store, runs) for runs in outside] == [None] * len(outside)
    assert decision(replace(store, captured=elsewhere), outside[0]) is not None
    (store.folder / "elsewhere").mkdir()
    (elsewhere / name).rename(store.folder / "elsewhere" / name)
    plot = decision(store, outside[0])
    assert name in plot.title
    assert "lyra (solver lyra-greedy)" in plot.svg
    assert "solver exact" in plot.svg


def test_a_head_with_many_schemes_begins_with_the_best(folders):
    """With many schemes the best one is named first."""
    replays = load_replays(folders["types"])
    (of_jct, of_queue) = differences(replays.variants[0], replays.jobs)
    many = [
        replace(each, scheme=f"s{place}", paired=each.paired._replace(mean_b=-place))
        for place in range(6)
        for each in (of_jct, of_queue)
    ]
    assert [who.split()[0] for who, _ in headline({"": many}, replays.variants)] == [
        *("s5", "s4", "s3", "s2", "s1", "s0")
    ]
    assert [who.split()[0] for who, _ in headline({"": many[:4]}, replays.variants)] == ["s0", "s1"]


def jobs(starts_h, hours=1.0):
    """Return one-GPU jobs with these starts and one run time."""
    start_s = HOUR_S * np.array(starts_h)
    return pd.DataFrame(
        {
            "job_id": [f"j{place}" for place in range(len(starts_h))],
            "start_s": start_s,
            "completion_s": start_s + hours * HOUR_S,
            "held_gpu_s": hours * HOUR_S,
        }
    )


def test_jobs_of_a_window_are_those_that_hold_gpus_then():
    """Jobs outside the window are not drawn; of many jobs the largest are drawn."""
    window = Window(2 * HOUR_S, 4 * HOUR_S, 0.0)
    chosen, there = chosen_jobs({"a": jobs([0.5, 1.5, 3.9, 4.0])}, window)
    assert (chosen, there) == (["j1", "j2"], 2)
    many = jobs([2 + place / 1000 for place in range(MOST_JOBS + 5)])
    many.loc[many.index[-1], "held_gpu_s"] *= 50
    chosen, there = chosen_jobs({"a": many}, window)
    assert (len(chosen), there) == (MOST_JOBS, MOST_JOBS + 5)
    assert chosen[-1] == f"j{MOST_JOBS + 4}"


def test_the_busiest_day_is_the_one_with_most_jobs_there():
    """The default window is the day with the most jobs, counted from the first submission."""
    moments = HOUR_S * np.array([5.0, 5 + 24, 5 + 48, 5 + 72])
    series = pd.DataFrame(
        {"time_s": moments, "queued_jobs": [0, 7, 1, 0], "running_jobs": [3, 2, 3, 0]}
    )
    window = window_of([series], None)
    assert (window.from_s, window.until_s) == (moments[1], moments[2])
    assert window.in_words() == "hours 24 to 48"


def test_every_part_has_a_row_and_a_look():
    """Every part of the JCT has a row in tables and a colour."""
    assert tuple(part.key for part in TIME_PARTS) == KEYS == tuple(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_long_names_of_variants_cover_nothing(three_jobs, run, tmp_path):
    """They are folded; the axis of shares begins where the curves begin."""
    axes = ", ".join(
        f'"{name}"={values}'
        for name, values in {
            "cluster.gpus_per_server": [4, 5],
            "jobs.assumptions.elastic_percent": [0],
            "jobs.assumptions.checkpoint_percent": [50],
        }.items()
    )
    given = changes(f"axes={{{axes}}}", "bounds=true")
    assert three_jobs(*given, *schemes("fifo", "sjf"), "--out", tmp_path / "out")[0] == 0
    for style in ("page", "paper"):
        assert run("report", tmp_path / "out", "--pictures", "png", "--style", style)[0] == 0
    replays = load_replays(tmp_path / "out")
    left, right = distributions(replays, replays.variants[0], "x").figure.axes
    assert left.get_ylim()[0] == 60, "two of three jobs do not wait"
    assert right.get_ylim()[0] == 0


def test_replays_that_do_not_tell_have_no_picture(three_jobs, tmp_path):
    """Old stores have no parts of the JCT."""
    exit_code, _, err = three_jobs(*schemes("fifo", "sjf"), "--out", tmp_path / "out")
    assert exit_code == 0, err
    replays = load_replays(tmp_path / "out")
    first, *others = replays.runs
    figures = {key: value for key, value in first.figures.items() if key != "pause_mean_s"}
    runs = [replace(first, figures=figures), *others]
    with house_style():
        for of_scenario, is_drawn in ((replays.runs, True), (runs, False)):
            plot = time_parts_plot(replays, VariantRuns("", of_scenario), "time_parts")
            assert (plot is not None) == is_drawn


def test_assumptions_name_the_seeds_and_cases_that_they_apply_to():
    runs = [
        make_replay(seed, axes={"case": case}, assumptions=["All.", *own])
        for case, seed, own in [
            ("itp", 0, ["One."]),
            ("itp", 1, []),
            ("philly", 0, ["Both."]),
            ("philly", 1, ["Both."]),
        ]
    ]
    assert assumptions_of(variants_of(runs)) == ["All.", "itp: Seed 0: One.", "philly: Both."]


def test_names_of_variants():
    """A case is named alone, and any other axis with its value."""
    (variant,) = variants_of([make_replay(0, axes={"case": "itp", "jobs.load": 2})])
    assert variant.name == "itp, jobs.load = 2"
