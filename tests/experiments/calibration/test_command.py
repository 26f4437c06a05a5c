"""``lyra-opt calibrate``, from end to end; and the frozen results that come along."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.experiments.calibration.document import (
    calibration_names,
    frozen_result,
    load_calibration,
)
from lyra_opt.experiments.calibration.evaluation import Evaluation
from lyra_opt.experiments.calibration.search import loss_of, means_of
from lyra_opt.experiments.simulation.scenario import load_scenario
from tests.conftest import assert_one_line_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

SMALL = """\
format = "lyra-opt/calibration"
version = 1
name = "small"
scenario = "lyra-paper"
changes = { "cluster.servers" = 12, "jobs.parameters.days" = 2 }
seeds = [0, 1]
judged = [2, 3]
trials = 4
refinements = 3
targets = [
    { measure = "queue_mean_s", value = 2000, tolerance = 5 },
    { measure = "jct_p50_s", value = 700, tolerance = 5 },
    { measure = "training_usage", value = 0.5, tolerance = 5 },
]
parameters = [
    { key = "jobs.parameters.shape.wide_per_mille", least = 0, most = 300 },
    { key = "jobs.parameters.shape.short_median_s", least = 200, most = 600 },
]
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Return a calibration of two days on twelve servers."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.mark.slow
def test_what_is_chosen_is_replayed(run: Run, small: Path, tmp_path: Path) -> None:
    """The simulated cluster has the figures that the values were chosen for."""
    folder = tmp_path / "out"
    code, out, err = run("calibrate", small, "--json", "--out", folder)
    assert code == 0, err
    record = json.loads(out)
    assert json.loads((folder / "small.json").read_text()) == record
    tried = record["tried"]
    assert len(tried["rows"]) == 7
    losses = [row[-1] for row in tried["rows"]]
    best = tried["rows"][losses.index(min(losses))]
    assert record["parameters"] == dict(zip(tried["columns"][:2], best[:2], strict=True))
    for target in record["targets"]:
        assert len(target["calibrated"]) == len(target["judged"]) == 2
        assert target["replayed"] == pytest.approx(target["judged"], rel=1e-6)
    assert record["targets"][0]["judged"] != record["targets"][0]["calibrated"]
    assert record["worst_disagreement"] < 1e-6
    changes = [f"{key}={value}" for key, value in record["parameters"].items()]
    changes += ["cluster.servers=12", "jobs.parameters.days=2"]
    changes += ['schemes=[{name="fifo", queue="first-come-overtaking"}]']
    sets = [part for change in changes for part in ("--set", change)]
    code, out, err = run("simulate", "lyra-paper", *sets, "--seed", 2, "--json")
    assert code == 0, err
    assert json.loads(out)["queue_mean_s"] == pytest.approx(record["targets"][0]["judged"][0])


def test_a_figure_that_is_missed_is_no_success(run: Run, small: Path) -> None:
    """Exit code 1, and a line that names it; the table stands there all the same."""
    small.write_text(SMALL.replace("value = 700, tolerance = 5", "value = 7, tolerance = 0.1"))
    code, out, err = run("calibrate", small, "--trials", 2, "--refinements", 0, "--replays", 0)
    assert code == 1
    assert "missed jct_p50_s" in err
    assert "queue_mean_s" in out
    assert "Best of 2 trials:" in out


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"lyra-paper"', '"lyra-papre"', "lyra-paper"),
        ('"lyra-paper"', '"philly"', "must be a scenario of generated jobs"),
        ("judged = [2, 3]", "judged = [1]", "judged"),
        ("queue_mean_s", "queue_average_s", "targets[0].measure"),
        ("wide_per_mille", "wide", "shape.wide"),
        ("least = 200", "least = 700", "parameters[1].least"),
        ("trials = 4", "trails = 4", "trails"),
    ],
)
def test_bad_files_are_one_line(run: Run, small: Path, old: str, new: str, named: str) -> None:
    """Naming file, field and rule; nothing is written."""
    text = SMALL.replace(', "jobs.parameters.days" = 2', "") if "philly" in new else SMALL
    small.write_text(text.replace(old, new, 1))
    assert_one_line_error(run("calibrate", small, "--out", small.parent / "out"), named)
    assert not (small.parent / "out").exists()


def test_unknown_names(run: Run) -> None:
    """The nearest one is named; keys are listed without a file."""
    assert_one_line_error(run("calibrate", "lyra-3"), "lyra-2")
    assert_one_line_error(run("calibrate"), "CALIBRATION is missing")
    assert "targets[].measure" in run("calibrate", "--keys")[1]


@pytest.mark.parametrize("name", calibration_names())
def test_frozen_results_are_those_of_their_files(name: str) -> None:
    """The least loss of all trials; with its figures again today, on a seed of each kind."""
    table, source = load_calibration(name)
    record = frozen_result(name)
    evaluation = Evaluation(table, source)
    losses = [row[-1] for row in record["tried"]["rows"]]
    assert record["loss"] == pytest.approx(min(losses), rel=1e-4)
    assert len(losses) == table.trials + table.refinements
    for of, seed in (("calibrated", table.seeds[0]), ("judged", table.judged[0])):
        figures = evaluation.scheduled(record["parameters"], seed)
        for target in record["targets"]:
            assert figures[target["measure"]] == pytest.approx(target[of][0], rel=1e-9)
    means = means_of(
        [
            {target["measure"]: target["calibrated"][place] for target in record["targets"]}
            for place in range(len(table.seeds))
        ]
    )
    assert loss_of(table, means) == pytest.approx(record["loss"])
    assert record["missed"] == []


@pytest.mark.parametrize("name", calibration_names())
def test_scenarios_have_the_frozen_values(name: str) -> None:
    """The scenario of a calibration's name is the calibrated one with what was chosen."""
    table, _ = load_calibration(name)
    document = tomllib.loads(load_scenario(name).text)
    chosen = {**table.changes, **frozen_result(name)["parameters"]}
    for path, value in chosen.items():
        found: Any = document
        for part in path.split("."):
            found = found[part]
        assert found == value, path
    calibrated = load_scenario(table.scenario).document
    assert document["cluster"] == calibrated["cluster"]
    assert document["jobs"]["workload"] == calibrated["jobs"]["workload"]
