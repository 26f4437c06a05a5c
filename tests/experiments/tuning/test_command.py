"""``lyra-opt tune``, from end to end; and the frozen results that come along."""

import json
import math
import sys
import tomllib
from dataclasses import replace

import jsonschema
import pytest

from lyra_opt.experiments.frames import load_study
from lyra_opt.experiments.simulation.scenario.loading import load_scenario
from lyra_opt.experiments.store import ResultStore
from lyra_opt.experiments.tuning.running import _Point
from lyra_opt.experiments.tuning.search import loss_of, search
from lyra_opt.experiments.tuning.tuning_file import (
    TUNINGS,
    frozen_result,
    load_tuning,
    tuning_names,
)
from tests.conftest import assert_one_line_error
from tests.tables import beside

SMALL = beside(__file__, "small_tuning.toml")
LINKS = "cluster.network.links"
REGRET = (
    *("tuner-regret", "--set", "seeds=1", "--set", "judged=[1]", "--set", "trials=5"),
    *("--set", "clairvoyant=1", "--processes", 1),
)


@pytest.fixture
def small(tmp_path):
    """Return a calibration of two days on twelve servers."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.mark.slow
def test_compiled_trials_are_what_the_cluster_measures(run, small, tmp_path):
    """The simulated cluster has the figures for which values were chosen; all rows are stored."""
    folder = tmp_path / "out"
    code, out, err = run("tune", small, "--format=json", "--out", folder)
    assert code == 0, err
    record = json.loads(out)
    assert json.loads((folder / "tuning.json").read_text()) == record
    tried = record["tried"]
    assert len(tried["rows"]) == 7
    best = min(tried["rows"], key=lambda row: row[-1])
    assert record["parameters"] == dict(zip(tried["columns"][:2], best[:2], strict=True))
    for target in record["targets"]:
        assert len(target["tuned"]) == len(target["judged"]) == 2
        assert target["replayed"] == pytest.approx(target["judged"], rel=1e-6)
    assert record["worst_disagreement"] < 1e-6
    frame = load_study(folder)
    compiled = frame[frame.compiled == "yes"]
    key = "jobs.parameters.shape.short_median_s"
    means = compiled[compiled.seed < 2].groupby([tried["columns"][0], key]).queue_mean_s.mean()
    assert means.to_list() == pytest.approx([row[2] for row in sorted(tried["rows"])])
    assert "All 7 trials" in (folder / "report.html").read_text()
    code, out, err = run("simulate", folder / "best.toml", "--seed", 2, "--format=json")
    assert code == 0, err
    assert json.loads(out)["queue_mean_s"] == pytest.approx(record["targets"][0]["judged"][0])
    assert_one_line_error(run("report", folder), "has runs of a tuning")


@pytest.mark.slow
def test_an_interrupted_search_goes_on(run, small, tmp_path, monkeypatch):
    """Its end is the same as without the interruption, and no stored run is done again."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    add, stored = ResultStore.add, []

    def counting(store, record):
        if len(stored) == 7:
            raise KeyboardInterrupt
        stored.append(record.key)
        if len(stored) != 3:  # as if this run were still going on while later ones completed
            add(store, record)

    with monkeypatch.context() as patched:
        patched.setattr(ResultStore, "add", counting)
        code, _, err = run("tune", small, "--out", cut)
    assert (code, len(load_study(cut))) == (130, 6), err
    assert_one_line_error(run("tune", small, "--out", cut), "--resume")
    for folder, processes in ((cut, 2), (whole, 1)):
        again = ("--resume", "--processes", processes)
        code, _, err = run("tune", small, "--out", folder, *again)
        assert code == 0, err
    assert (whole / "tuning.json").read_text() == (cut / "tuning.json").read_text()
    assert load_study(cut).key.to_list() == load_study(whole).key.to_list()


ROWS = """
compiled = false
largest_miss = 5
rows = [
    { name = "Baseline", scheme = "baseline" },
    { name = "rigid", scheme = "lyra", changes = { "jobs.assumptions.elastic_percent" = 0 } },
    { name = "elastic", scheme = "lyra", changes = { "jobs.assumptions.all_elastic" = true } },
]
targets = [
    { row = "Baseline", measure = "jct_p75_s", value = 20_000 },
    { row = "rigid", measure = "jct_mean_s", value = 10_000 },
    { row = "elastic", measure = "jct_mean_s", value = 5_000 },
]
"""


def with_rows():
    """Return the calibration with the rows of a table, and without refinements."""
    text = SMALL[: SMALL.index("compiled")].replace("}]", '}, "lyra"]') + ROWS
    text += SMALL[SMALL.index("seeds =") : SMALL.index("targets =")].replace("= 3", "= 0")
    return text + SMALL[SMALL.index("parameters =") :]


def test_a_row_of_an_unknown_scheme_is_refused_before_the_first_run(run, tmp_path):
    path = tmp_path / "rows.toml"
    path.write_text(with_rows().replace('"elastic", scheme = "lyra"', '"elastic", scheme = "afs"'))
    assert_one_line_error(run("tune", path), "rows[2].scheme", "afs", "baseline", "lyra")


@pytest.mark.slow
def test_all_rows_of_a_table_are_tuned_together(run, tmp_path):
    """Each trial simulates each row, in the scenario with the changes of the row."""
    path, folder = tmp_path / "rows.toml", tmp_path / "out"
    path.write_text(with_rows())
    code, out, err = run("tune", path, "--format=json", "--out", folder)
    assert code == 1, err
    assert "rigid: jct_mean_s" in err
    record = json.loads(out)
    best = min(record["tried"]["rows"], key=lambda row: row[-1])
    means = dict(zip(record["tried"]["columns"], best, strict=True))
    changes = {
        "rigid": "jobs.assumptions.elastic_percent=0",
        "elastic": "jobs.assumptions.all_elastic=true",
    }
    for row, change in changes.items():
        command = ("simulate", folder / "best.toml", "--scheme=lyra", "--set", change)
        code, out, err = run(*command, "--set", "seeds=[0, 1]", "--format=json")
        assert code == 0, err
        found = [each["jct_mean_s"] for each in json.loads(out)]
        assert means[f"{row}: jct_mean_s"] == pytest.approx(math.fsum(found) / 2)
    assert set(load_study(folder).row) == {"Baseline", *changes}


def test_schema_and_extra(run, monkeypatch):
    """Bundled files keep the schema, and the error without Optuna names the extra."""
    validator = jsonschema.Draft202012Validator(json.loads(run("tune", "--schema")[1]))
    for name in tuning_names():
        validator.validate(tomllib.loads((TUNINGS / f"{name}.toml").read_text()))
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert_one_line_error(run("tune", "lyra-2"), "Optuna", "lyra-opt[tuning]")


@pytest.mark.slow
def test_each_point_of_the_axes_is_tuned(run, tmp_path):
    """By itself, with timers of its own; no schedule is below the proved bound."""
    folder = tmp_path / "tuned"
    axes = f'changes={{"jobs.parameters.jobs"=8, axes={{"{LINKS}"=["shipped", "congested-2"]}}}}'
    code, out, err = run("tune", *REGRET, "--set", axes, "--out", folder, "--format=json")
    assert code == 0, err
    records = json.loads(out)["points"]
    assert [record["axes"][LINKS] for record in records] == ["shipped", "congested-2"]
    for record in records:
        rows = {
            row["name"]: [each["jct_mean_s"] for each in row["tuned"]] for row in record["compared"]
        }
        assert {"no wait", "consolidated", "dally", "srtf-network", "best found"} < set(rows)
        least, schedule = rows.pop("bound of any schedule"), rows["best schedule found"]
        assert least[0] <= schedule[0] * (1 + 1e-9)
        assert schedule[0] == min(value for (value,) in rows.values())
        (judged,) = next(row["judged"] for row in record["compared"] if row["name"] == "best found")
        links = record["axes"][LINKS]
        best = folder / f"best {LINKS} = {links}.toml"
        code, out, err = run("simulate", best, "--scheme", "manual", "--seed", 1, "--format=json")
        assert code == 0, err
        assert json.loads(out)["jct_mean_s"] == pytest.approx(judged["jct_mean_s"])
    frame = load_study(folder)
    assert math.isinf(frame["schemes.manual.timers.1.network_leases"].max())
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("name", ["lyra-2", "lyra-2-percentiles"])
def test_frozen_results_are_those_of_their_files(name, monkeypatch):
    """The least loss of all trials, with its figures and its first trials again today.

    The scenario of the name has the chosen values.
    """
    tuning, record = load_tuning(name), frozen_result(name)
    table, rows = tuning.table, record["tried"]["rows"]
    assert record["loss"] == pytest.approx(min(row[-1] for row in rows), rel=1e-4)
    assert len(rows) == table.trials + table.refinements
    point = _Point(tuning=tuning, point={}, variant=tuning.scenario)
    values = [record["parameters"][each.path] for each in table.parameters]
    for of, seed in (("calibrated", table.seeds[0]), ("judged", table.judged[0])):
        (task,) = point.tasks(values, [seed])
        figures = task.run().figures or {}
        for target in record["targets"]:
            assert figures[target["measure"]] == pytest.approx(target[of][0], rel=1e-9)
    means = {target["measure"]: target["calibrated_mean"] for target in record["targets"]}
    assert loss_of(table, means) == pytest.approx(record["loss"])
    assert record["missed"] == []
    known = dict.fromkeys(table.measures, 1.0)
    few = replace(table, trials=table.random, refinements=0)
    trials = search(few, lambda candidates: [known] * len(candidates))
    columns = [each.path for each in table.parameters]
    for trial, row in zip(trials, rows, strict=False):
        assert [trial.steps[path] for path in columns] == row[: len(columns)]
    document = load_scenario(name).document
    for path, value in {**table.changes, **record["parameters"]}.items():
        found = document
        for part in path.split("."):
            found = found[part]
        assert found == value, path
    tuned = tuning.scenario.document
    assert document["cluster"] == tuned["cluster"]
    assert document["jobs"]["workload"] == tuned["jobs"]["workload"]
