"""``lyra-opt diff``: pairs, means and intervals equal those computed by hand."""

import csv
import io
import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.core.result import Status
from lyra_opt.core.table import latex_of
from lyra_opt.experiments.diff import compare_folders
from lyra_opt.experiments.records import ReplayStatus
from lyra_opt.experiments.store import STORE_FILE, ResultStore
from tests.conftest import assert_one_line_error
from tests.draws import draws
from tests.experiments.records import make_replay, make_run, make_study
from tests.latex import rows_of_latex
from tests.tables import tables

TABLES = tables(__file__)


def stored(folder, runs, **study):
    """Write the runs into a new store in that folder."""
    (folder / STORE_FILE).unlink(missing_ok=True)
    record = replace(make_study(len(runs)), kind=runs[0].kind, **study)
    with ResultStore.create(folder, record) as store:
        for position, run in enumerate(runs):
            store.add(replace(run, position=position))
    return folder


def replays(jct_s, **columns):
    return [
        make_replay(seed, figures={"jct_mean_s": value, "jobs": 100}, **columns)
        for seed, value in enumerate(jct_s)
    ]


def compared(folder, a, b):
    """Return the differences between two stores of these runs."""
    return compare_folders(stored(folder / "a", a), stored(folder / "b", b))


def row(diff, measure, axis="", value=""):
    found = diff.measures
    found = found[(found.measure == measure) & (found.axis == axis) & (found.value == value)]
    (only,) = found.itertuples()
    return only


def test_interval_is_that_of_the_paired_t_test(tmp_path):
    """Differences 1, 2, 3: mean 2, standard error 1 / sqrt(3), and 4.3027 of them at 95 %."""
    diff = compared(tmp_path, replays([10.0, 20.0, 30.0]), replays([11.0, 22.0, 33.0]))
    found = row(diff, "jct_mean_s")
    assert (found.pairs, found.draws) == (3, 3)
    assert (found.mean_a, found.mean_b, found.difference) == (20.0, 22.0, 2.0)
    assert found.low == pytest.approx(2 - 4.30265 / math.sqrt(3), abs=1e-4)
    assert found.high == pytest.approx(2 + 4.30265 / math.sqrt(3), abs=1e-4)
    assert found.change_percent == pytest.approx(10.0)
    assert "jobs" in diff.equal


def test_runs_that_share_their_draws_count_as_one(tmp_path):
    """Two loads of one seed are no two samples: their differences are averaged first."""
    diff = compared(
        tmp_path,
        replays([10.0, 20.0], axes={"load": 0.5}) + replays([10.0, 20.0], axes={"load": 0.9}),
        replays([11.0, 22.0], axes={"load": 0.5}) + replays([13.0, 24.0], axes={"load": 0.9}),
    )
    overall = row(diff, "jct_mean_s")
    assert (overall.pairs, overall.draws) == (4, 2)
    assert (overall.difference, overall.mean_a, overall.mean_b) == (2.5, 15.0, 17.5)
    assert row(diff, "jct_mean_s", "load", 0.5).difference == 1.5
    assert row(diff, "jct_mean_s", "load", 0.9).difference == 3.5


def test_cases_are_not_pooled(tmp_path):
    """Seeds of different traces are no sample: each case has its row, of its own draws alone.

    The cluster says the same as the case, so it has no rows of its own.
    """
    cases = {"itp": ([10.0, 20.0, 30.0], [11.0, 23.0, 32.0]), "philly": ([5.0, 7.0], [4.0, 7.0])}
    runs = [
        run
        for case, of_schemes in cases.items()
        for scheme, jct_s in zip(("fifo", "lyra"), of_schemes, strict=True)
        for run in replays(
            jct_s, axes={"case": case}, scheme=scheme, workload=case, cluster=f"{case} servers"
        )
    ]
    diff = compare_folders(stored(tmp_path / "a", runs), by=("scheme", "fifo", "lyra"))
    assert [*zip(diff.measures.axis, diff.measures.value, strict=True)] == [
        ("case", "itp"),
        ("case", "philly"),
    ]
    found = row(diff, "jct_mean_s", "case", "itp")
    assert (found.pairs, found.draws, found.difference) == (3, 3, 2.0)
    assert "over 2 to 3 seeds" in diff.method
    itp, philly = diff.for_papers()
    assert (itp.case, philly.case) == ("itp", "philly")
    text = latex_of([itp, philly])
    assert [rows[1][-3:-1] for rows in rows_of_latex(text)] == [["20.0", "22.0"], ["6.00", "5.50"]]
    assert [text.count(each) for each in ("begin{table*}", "caption{philly}")] == [2, 1]
    (share,) = {float(each) for each in re.findall(r"p\{([\d.]+)", text)} or {0.0}
    assert share < 0.35


def test_papers_have_the_main_measures_under_the_names_of_the_schemes(tmp_path, run):
    """With times in a unit to read, the interval in %, and the method as a comment."""
    runs = [
        make_replay(
            seed,
            scheme=scheme,
            axes={},
            figures={"jct_mean_s": 7200.0 * (seed + factor), "queue_p99_s": factor},
            wall_time_s=factor,
        )
        for scheme, factor in (("fifo", 1.0), ("lyra", 1.00001))
        for seed in range(3)
    ]
    asked = ("diff", stored(tmp_path / "a", runs), "--by", "scheme", "fifo", "lyra")
    title, _, head, _, *rows = run(*asked, "--format=markdown")[1].splitlines()
    assert title.startswith("lyra compared with fifo. Intervals are 95 % confidence intervals")
    heads = [heading.strip() for heading in head.split("|")[1:-1]]
    assert heads[:3] == ["measure", "fifo", "lyra"]
    assert heads[3:] == ["difference, 95 % interval (%)"]
    (cells,) = ([cell.strip() for cell in line.split("|")[1:-1]] for line in rows)
    assert cells[:3] == ["JCT, mean (hours)", "4.00", "4.00"]
    assert cells[3] == "+0.0 (−0.0 to +0.0)"
    measures = [*json.loads(run(*asked, "--format=json")[1])["measures"]]
    assert [each["measure"] for each in measures] == ["jct_mean_s", "queue_p99_s", "wall_time_s"]


def test_digits_are_those_of_simulate_and_equal_measures_come_last(tmp_path, run):
    """A small mean beside a large one keeps its digits; other scenarios are one warning."""
    folders = [
        stored(
            tmp_path / name,
            [make_replay(seed, figures={"preemptions": each, "jobs": 3}) for seed in range(3)],
            name=name,
        )
        for name, each in (("plain", 250.5), ("itp", 2.49))
    ]
    exit_code, printed, err = run("diff", *folders)
    assert exit_code == 0
    assert re.search(r"Preemptions +3 +3 +250 +2\.49 ", printed)
    assert printed.splitlines()[-1] == "Equal in all pairs: jobs", "no run has a wall time"
    assert "A is plain and B is itp, which are different scenarios" in err


def test_one_draw_has_no_interval(tmp_path):
    diff = compared(tmp_path, replays([1.0]), replays([2.0]))
    assert math.isnan(row(diff, "jct_mean_s").low)
    assert diff.method == "A dash stands for too few seeds: fewer than 3 have no interval."


def test_what_all_runs_of_a_folder_share_is_a_setting(tmp_path):
    """Two schemes are paired seed by seed, although no key is in both folders."""
    diff = compared(
        tmp_path,
        replays([1.0, 2.0], scheme="fifo", axes={"scheme": "fifo"}),
        replays([2.0, 1.0], scheme="lyra", axes={"scheme": "lyra"}),
    )
    assert diff.settings == {"scheme": {"a": "fifo", "b": "lyra"}}
    assert (diff.pairs, diff.only_a, diff.only_b) == (2, [], [])


def test_failed_runs_hide_no_setting(tmp_path):
    failed = make_replay(2, status=ReplayStatus.ERROR, scheme="lyra", workload="", cluster="")
    diff = compared(
        tmp_path, replays([1.0, 2.0, 3.0]), [*replays([2.0, 1.0], scheme="lyra"), failed]
    )
    assert (diff.pairs, diff.settings["scheme"]["b"]) == (2, "lyra")
    assert diff.failed == ["lyra, load=0.5, seed=2"]
    assert "Left out: 2 runs that failed or have no partner." in diff.for_papers()[0].title


def test_runs_without_a_pair_and_failed_ones_are_named(tmp_path):
    # A failed run does not know what it would have run.
    failed = make_replay(1, status=ReplayStatus.ERROR, message="no", workload="", cluster="")
    diff = compared(
        tmp_path, [*replays([1.0, 2.0]), make_replay(7)], [*replays([4.0]), failed, make_replay(8)]
    )
    assert row(diff, "jct_mean_s").pairs == diff.pairs == 1
    assert diff.failed == ["fifo, load=0.5, seed=1"]
    assert (diff.only_a, diff.only_b) == (["fifo, load=0.5, seed=7"], ["fifo, load=0.5, seed=8"])


def test_runs_that_nothing_else_tells_apart_are_paired_by_key(tmp_path):
    def folder(**jobs_of_key):
        runs = [make_replay(0, key=key, figures={"jobs": jobs_of_key[key]}) for key in jobs_of_key]
        return stored(tmp_path / str(jobs_of_key), runs)

    assert row(compare_folders(folder(x=1, y=2), folder(y=4, x=3)), "jobs").difference == 2.0


def test_studies_of_solvers_say_what_else_differs(tmp_path):
    runs = [
        make_run(f"c{number}", "quick", Status.FEASIBLE, objective=10, wall_time_s=0.5)
        for number in range(3)
    ]
    other = [
        replace(run, objective=8, status=Status.OPTIMAL, cpu="another", versions={"python": "3.12"})
        for run in runs
    ]
    a = stored(tmp_path / "a", runs, text="seeds = 1\n")
    b = stored(tmp_path / "b", other, text="seeds = 2\n")
    diff = compare_folders(a, b)
    found = row(diff, "objective")
    assert (found.difference, found.low, found.high) == (-2.0, -2.0, -2.0)
    assert diff.statuses == {"feasible -> optimal": 3}
    assert diff.machines == {
        "python": {"a": "3.11.0", "b": "3.12"},
        "cpu": {"a": "a processor", "b": "another"},
    }
    assert {"-seeds = 1", "+seeds = 2"} <= set(diff.text)
    assert "wall_time_s" in diff.equal


def test_an_axis_that_some_runs_lack_pairs_them_all_the_same(tmp_path):
    """Blocks of a study have axes of their own: NaN is equal to NaN here."""
    runs = [
        make_run("c1", "quick", Status.FEASIBLE, objective=1, axes=[]),
        make_run("c2", "quick", Status.FEASIBLE, objective=1),
    ]
    other = [replace(run, objective=3) for run in runs]
    diff = compared(tmp_path, runs, other)
    assert (diff.pairs, diff.only_a) == (2, [])


@draws(15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(*[st.floats(0, 1e6)] * 2), min_size=1, max_size=6))
def test_the_other_way_round_differences_change_their_sign(tmp_path, values):
    a = stored(tmp_path / "a", replays([first for first, _ in values]))
    b = stored(tmp_path / "b", replays([second for _, second in values]))
    there, back = compare_folders(a, b), compare_folders(b, a)
    assert there.equal == back.equal
    for measure in there.measures.measure.unique():
        first, second = row(there, measure), row(back, measure)
        assert first.difference == pytest.approx(-second.difference)
        assert first.low == pytest.approx(-second.high, nan_ok=True)
    assert compare_folders(a, a).measures.empty


def test_forms_say_the_same(tmp_path, run):
    a = stored(tmp_path / "a", [*replays([10.0, 20.0, 30.0]), make_replay(9)])
    b = stored(tmp_path / "b", replays([11.0, 24.0, 32.5], cpu="another"))
    document = json.loads(run("diff", a, b, "--format=json")[1])
    (measured,) = document["measures"]
    assert measured["difference"] == 2.5
    assert document["machines"] == {"cpu": {"a": "a processor", "b": "another"}}
    (of_csv,) = csv.DictReader(io.StringIO(run("diff", a, b, "--format=csv")[1]))
    assert float(of_csv["low"]) == pytest.approx(measured["low"])
    exit_code, printed, _ = run("diff", a, b)
    assert exit_code == 0
    lines = {"3 pairs of runs.", "Only in A: 1", "cpu: a processor -> another"}
    assert lines <= {*printed.splitlines()}
    assert "Student's t over 3 seeds" in printed
    assert document["random"] == "seeds"


def test_two_schemes_of_one_folder_compare_as_two_folders_do(tmp_path):
    """``--by`` pairs runs by everything else, and an axis is compared in the same way."""
    fast, slow = {"axes": {"load": 0.5}}, {"axes": {"load": 0.9}}
    of_fifo = [*replays([1.0, 2.0], **fast), *replays([3.0, 4.0], **slow)]
    of_lyra = [
        *replays([2.0, 4.0], scheme="lyra", **fast),
        *replays([5.0, 9.0], scheme="lyra", **slow),
    ]
    both = stored(tmp_path / "both", [*of_fifo, *of_lyra])
    apart = compared(tmp_path, of_fifo, of_lyra)
    together = compare_folders(both, by=("scheme", "fifo", "lyra"))
    assert together.measures.equals(apart.measures)
    assert (together.pairs, together.only_a, together.settings) == (4, [], {})
    by_load = compare_folders(both, by=("load", "0.5", "0.9"))
    assert row(by_load, "jct_mean_s", "scheme", "lyra").difference == 4.0


def test_two_solvers_of_one_folder(tmp_path, run):
    runs = [
        make_run(f"c{cell}", name, Status.FEASIBLE, objective=cell + extra)
        for cell in range(3)
        for name, extra in (("quick", 2), ("exact", 0))
    ]
    folder = stored(tmp_path / "a", runs)
    exit_code, printed, _ = run("diff", folder, "--by", "solver", "quick", "exact", "--format=json")
    (measured,) = json.loads(printed)["measures"]
    assert (exit_code, measured["difference"], measured["pairs"]) == (0, -2.0, 3)
    for options, hint in TABLES["wrong_properties"].values():
        assert_one_line_error(run("diff", folder, *options), hint)


def test_folders_that_do_not_compare_are_refused_in_one_line(tmp_path, run):
    a = stored(tmp_path / "a", replays([1.0]))
    solvers = stored(tmp_path / "solvers", [make_run("c", "s", Status.UNKNOWN)])
    later = stored(tmp_path / "later", [make_replay(3), make_replay(4)])
    with pytest.raises(UserError, match="has runs of kind solver"):
        compare_folders(a, solvers)
    with pytest.raises(UserError, match="no runs in common"):
        compare_folders(stored(tmp_path / "two", replays([1.0, 2.0])), later)
    assert_one_line_error(run("diff", a, tmp_path), "has no store of results")
