"""``lyra-opt tune-timers``, from end to end."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.experiments.simulation import building
from lyra_opt.experiments.tuning import command
from lyra_opt.instances.network.generated_jobs import dally_batch
from lyra_opt.network.links import Tier
from lyra_opt.simulation.network.class_timers import read_timers
from lyra_opt.simulation.network.communication import MODELS
from tests.conftest import assert_one_line_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lyra_opt.experiments.simulation.setup import Setup

    Run = Callable[..., tuple[int, str, str]]

SCENARIO = """\
format = "lyra-opt/scenario"
version = 1
name = "small"
schemes = ["dally"]

[cluster]
name = "small"
servers = 4
servers_per_rack = 2

[cluster.network]
links = "congested-2"

[jobs]
workload = "dally-batch"

[jobs.parameters]
jobs = 10
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """Return a scenario of ten jobs on four machines."""
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO)
    return path


def small(scenario: Path) -> tuple[object, ...]:
    """Return the arguments of a short search."""
    return (scenario, "--seeds", 1, "--trials", 6, "--processes", 1)


def changes(*texts: str) -> list[str]:
    """Return what changes keys of a scenario."""
    return [part for text in texts for part in ("--set", text)]


def test_timers_are_found_and_can_be_simulated(run: Run, scenario: Path, tmp_path: Path) -> None:
    """The file gives, in `simulate`, the very mean JCT for which the timers were chosen."""
    folder = tmp_path / "out" / "tuned"
    code, out, err = run("tune-timers", *small(scenario), "--out", folder, "--json")
    assert code == 0, err
    record = json.loads(out)
    assert json.loads((folder / "tuning.json").read_text()) == record
    assert (record["seeds"], record["fresh_seeds"]) == ([0], [1])
    assert len(record["tried"]) == 6
    best = record["compared"][-1]
    assert best["name"] == "best found"
    assert best["jct_mean_s"] == min(trial["jct_mean_s"] for trial in record["tried"])
    timers = read_timers(folder / "timers.toml")
    assert [each.largest_gang for each in timers.classes] == [8, 16]
    for seed, key in ((0, "jct_mean_s"), (1, "fresh_jct_mean_s")):
        tuned = changes(f'schemes=[{{name="manual", timers="{folder / "timers.toml"}"}}]')
        given = ("--seed", seed, "--processes", 1, "--json")
        code, out, err = run("simulate", scenario, *tuned, *given)
        assert code == 0, err
        assert json.loads(out)["jct_mean_s"] == pytest.approx(best[key])


def test_it_is_said_in_words(run: Run, scenario: Path) -> None:
    """People see baselines, the auto-tuner and what was found, with what is assumed."""
    code, out, err = run("tune-timers", *small(scenario), *changes("jobs.workload=dally-poisson"))
    assert code == 0, err
    for part in ("no wait", "floors (6, 12)", "dally", "best found", "gangs of 1 to 8:", "Assumed"):
        assert part in out


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        pytest.param(("--classes", "8,4"), ("--classes", "increasing"), id="classes"),
        pytest.param(("--classes", "4,x"), ("--classes", "increasing"), id="no number"),
        pytest.param(("--trials", "3"), ("--trials",), id="trials"),
        pytest.param(changes("cluster.network.links=none"), ("links 'none'",), id="links"),
        pytest.param(changes("jobs.trace=a.csv"), ("must not stand beside trace",), id="both"),
        pytest.param(changes("jobs.parameters.rate=5"), ("unknown key",), id="rate"),
        pytest.param(changes("jobs.parameters.jobs=500"), ("jobs.oversized=drop",), id="oversized"),
    ],
)
def test_bad_input_is_a_line_and_writes_nothing(
    run: Run, scenario: Path, tmp_path: Path, options: Sequence[str], parts: Sequence[str]
) -> None:
    """Found out before the first simulation."""
    folder = tmp_path / "out"
    result = run("tune-timers", *small(scenario), "--out", folder, *options)
    assert_one_line_error(result, *parts)
    assert not folder.exists()


@pytest.mark.parametrize("missing", [0, 1])
def test_slowdowns_that_one_draw_lacks_are_found_out_first(
    run: Run, scenario: Path, tmp_path: Path, missing: int
) -> None:
    """Of fresh draws too: hours of simulation must not end with a line that is missing."""
    needed, others = (
        {
            (job.model, job.min_gpus)
            for job in dally_batch(seed=seed, jobs=10).jobs
            if job.min_gpus > 1
        }
        for seed in (missing, 1 - missing)
    )
    assert needed - others
    table = tmp_path / "slowdowns.csv"
    lines = [f"{model},1,machine,1" for model in MODELS]
    for model, gpus in sorted(others):
        lines += [f"{model},{gpus},{tier.label},2" for tier in Tier]
    table.write_text("\n".join(["model,gpus,tier,slowdown", *lines]))
    folder = tmp_path / "out"
    measured = changes(f'cluster.network={{slowdowns="{table}"}}')
    result = run("tune-timers", *small(scenario), *measured, "--out", folder)
    assert_one_line_error(result, "have no line for model")
    assert not folder.exists()


def test_a_folder_is_removed_again_if_nothing_came(
    run: Run, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one looks like a result; one that was there before stays."""

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command._Question, "tuned", interrupted)
    (tmp_path / "mine").mkdir()
    for name in ("mine", "new"):
        assert run("tune-timers", *small(scenario), "--out", tmp_path / name)[0] == 130
    assert (tmp_path / "mine").is_dir()
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_cluster_without_a_choice_is_found_out_first(
    run: Run, scenario: Path, tmp_path: Path
) -> None:
    """A folder with nothing in it looks like a run that was killed."""
    folder = tmp_path / "out"
    one = changes("cluster.servers=1", "jobs.oversized=drop")
    result = run("tune-timers", *small(scenario), *one, "--out", folder)
    assert_one_line_error(result, "timers hold nobody back")
    result = run("tune-timers", "lyra-paper", *changes("cluster.servers=5"), "--out", folder)
    assert_one_line_error(result, "scenario lyra-paper", "network")
    assert not folder.exists()


def test_what_differs_is_told_of_every_draw(
    run: Run, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of the first draw alone is false of the others."""
    make_setup = building.make_setup

    def unlike_draws(scenario: Any, schemes: Any, seed: int) -> Setup:
        setup = make_setup(scenario, schemes, seed)
        sentences = ("All.", "Odd.") if seed % 2 else ("All.",)
        workload = replace(setup.workload, assumptions=sentences)
        return replace(setup, workload=workload, dropped=10 * seed)

    monkeypatch.setattr(building, "make_setup", unlike_draws)
    options = ("--seeds", 2, "--seed", 3, "--trials", 4, "--json")
    code, out, err = run("tune-timers", *small(scenario), *options)
    assert code == 0, err
    record = json.loads(out)
    assert (record["dropped"], record["fresh_dropped"]) == ([30, 40], [50, 60])
    assert record["assumptions"][:2] == ["All.", "Seeds 3, 5: Odd."]


def test_classes_and_cut_baselines_are_told(run: Run, scenario: Path) -> None:
    """Rows are called what they are, and no gang is in no class without a word."""
    code, out, err = run("tune-timers", *small(scenario), "--classes", "2,4", "--most-leases", 5)
    assert code == 0, err
    for part in ("floors (6, 12), cut to (5, 5)", "defaults (1, 2) ", "gangs of 5 to 16:"):
        assert part in out


def test_without_optuna_the_extra_is_named(
    run: Run, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything else is done."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert_one_line_error(run("tune-timers", *small(scenario)), "Optuna", "lyra-opt[tuning]")


def test_timers_files_that_are_not_there_are_named(run: Run, scenario: Path) -> None:
    """`simulate` takes a file, too."""
    result = run("simulate", scenario, *changes('schemes=[{name="manual", timers="none.toml"}]'))
    assert_one_line_error(result, "none.toml", "cannot be read")
