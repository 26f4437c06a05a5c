"""``lyra-opt tune-timers``, from end to end."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from experiments.simulation.network_arguments import given_workload
from experiments.tuning import command
from instances.network.generated_jobs import dally_batch
from lyra_opt.network.class_timers import read_timers
from lyra_opt.network.communication import MODELS
from lyra_opt.network.links import Tier
from tests.conftest import assert_one_line_error

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lyra_opt.simulation.workload import Workload

    Run = Callable[..., tuple[int, str, str]]

TOPOLOGY = """\
format = "lyra-opt/topology"
version = 1
name = "small"
racks = 2
machines_per_rack = 2
gpus_per_machine = 8
network = "congested-2"
"""


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    """Return a file with four machines."""
    path = tmp_path / "small.toml"
    path.write_text(TOPOLOGY)
    return path


def small(topology: Path) -> tuple[object, ...]:
    """Return the options of a short search."""
    return (
        "--topology",
        topology,
        "--job-count",
        10,
        "--seeds",
        1,
        "--trials",
        6,
        "--processes",
        1,
    )


def test_timers_are_found_and_can_be_simulated(run: Run, topology: Path, tmp_path: Path) -> None:
    """The file gives, in `simulate`, the very mean JCT for which the timers were chosen."""
    folder = tmp_path / "out" / "tuned"
    code, out, err = run("tune-timers", *small(topology), "--out", folder, "--json")
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
        code, out, err = run(
            *("simulate", "--topology", topology, "--workload", "dally-batch", "--job-count", 10),
            *("--scheme", "manual", "--timers", folder / "timers.toml", "--seed", seed, "--json"),
        )
        assert code == 0, err
        assert json.loads(out)["jct_mean_s"] == pytest.approx(best[key])


def test_it_is_said_in_words(run: Run, topology: Path) -> None:
    """People see baselines, the auto-tuner and what was found, with what is assumed."""
    code, out, err = run("tune-timers", *small(topology), "--workload", "dally-poisson")
    assert code == 0, err
    for part in ("no wait", "floors (6, 12)", "dally", "best found", "gangs of 1 to 8:", "Assumed"):
        assert part in out


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        pytest.param(("--classes", "8,4"), ("--classes", "increasing"), id="classes"),
        pytest.param(("--classes", "4,x"), ("--classes", "increasing"), id="no number"),
        pytest.param(("--trials", "3"), ("--trials",), id="trials"),
        pytest.param(("--network", "none"), ("--network is 'none'",), id="network"),
        pytest.param(("--job-count", "100", "--jobs", "trace.csv"), ("--job-count",), id="both"),
        pytest.param(("--jobs-per-day", "5"), ("--jobs-per-day",), id="rate"),
        pytest.param(("--job-count", "500"), ("--drop-oversized",), id="oversized"),
    ],
)
def test_bad_input_is_a_line_and_writes_nothing(
    run: Run, topology: Path, tmp_path: Path, options: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    """Found out before the first simulation."""
    folder = tmp_path / "out"
    result = run("tune-timers", *small(topology), "--out", folder, *options)
    assert_one_line_error(result, *parts)
    assert not folder.exists()


@pytest.mark.parametrize("missing", [0, 1])
def test_slowdowns_that_one_draw_lacks_are_found_out_first(
    run: Run, topology: Path, tmp_path: Path, missing: int
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
    result = run("tune-timers", *small(topology), "--slowdowns", table, "--out", folder)
    assert_one_line_error(result, "have no line for model")
    assert not folder.exists()


def test_a_folder_is_removed_again_if_nothing_came(
    run: Run, topology: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty one looks like a result; one that was there before stays."""

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_tuned", interrupted)
    (tmp_path / "mine").mkdir()
    for name in ("mine", "new"):
        assert run("tune-timers", *small(topology), "--out", tmp_path / name)[0] == 130
    assert (tmp_path / "mine").is_dir()
    assert not (tmp_path / "new").exists()


def test_a_cluster_without_a_choice_is_found_out_first(run: Run, tmp_path: Path) -> None:
    """A folder with nothing in it looks like a run that was killed."""
    path = tmp_path / "one.toml"
    path.write_text(TOPOLOGY.replace("racks = 2", "racks = 1").replace("rack = 2", "rack = 1"))
    folder = tmp_path / "out"
    result = run("tune-timers", *small(path), "--drop-oversized", "--out", folder)
    assert_one_line_error(result, "timers hold nobody back")
    assert not folder.exists()


def test_what_differs_is_told_of_every_draw(
    run: Run, topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of the first draw alone is false of the others."""

    def unlike_draws(*given: Any, seed: int) -> tuple[Workload, int]:
        draw, _ = given_workload(*given, seed=seed)
        sentences = ("All.", "Odd.") if seed % 2 else ("All.",)
        return replace(draw, assumptions=sentences), 10 * seed

    monkeypatch.setattr(command, "given_workload", unlike_draws)
    options = ("--seeds", 2, "--seed", 3, "--trials", 4, "--json")
    code, out, err = run("tune-timers", *small(topology), *options)
    assert code == 0, err
    record = json.loads(out)
    assert (record["dropped"], record["fresh_dropped"]) == ([30, 40], [50, 60])
    assert record["assumptions"][:2] == ["All.", "Seeds 3, 5: Odd."]


def test_classes_and_cut_baselines_are_told(run: Run, topology: Path) -> None:
    """Rows are called what they are, and no gang is in no class without a word."""
    code, out, err = run("tune-timers", *small(topology), "--classes", "2,4", "--most-leases", 5)
    assert code == 0, err
    for part in ("floors (6, 12), cut to (5, 5)", "defaults (1, 2) ", "gangs of 5 to 16:"):
        assert part in out


def test_without_optuna_the_extra_is_named(
    run: Run, topology: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything else is done."""
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert_one_line_error(run("tune-timers", *small(topology)), "Optuna", "lyra-opt[tuning]")


def test_timers_files_that_are_not_there_are_named(run: Run, topology: Path) -> None:
    """`simulate` takes a file, too."""
    result = run(
        *("simulate", "--topology", topology, "--workload", "dally-batch", "--job-count", 10),
        *("--scheme", "manual", "--timers", topology.parent / "none.toml"),
    )
    assert_one_line_error(result, "none.toml", "cannot be read")
