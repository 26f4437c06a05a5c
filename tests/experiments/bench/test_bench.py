"""The bench from end to end: benchmarks of the smallest size, and a tiny study."""

from __future__ import annotations

import os

import pandas as pd
import pytest

from lyra_opt.experiments.bench import __main__ as bench
from lyra_opt.experiments.store import ResultStore

PART = "reclaim-speed"


@pytest.mark.slow
@pytest.mark.parametrize("part", bench.BENCHMARKS)
def test_benchmarks_measure_every_target(part, tmp_path, monkeypatch):
    """All but what needs a trace, or the kernels that set-up compiles, and all of them pass."""
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)  # pytest-benchmark times nothing in a worker of xdist
    status = bench.main(["--small", "--only", part, "--out", str(tmp_path)])
    figures = pd.read_csv(tmp_path / "figures.csv")
    assert status == int("MISSED" in set(figures.verdict)), "a miss alone gives another exit code"
    missing = figures[figures.runs == 0].what
    assert missing.str.contains("Philly|ITP|user's own file|after set-up").all()
    assert len(missing) < len(figures)
    assert "Measured on" in (tmp_path / bench.PAGE).read_text()


@pytest.fixture
def tiny(write_study, monkeypatch):
    """Put a tiny study in place of one of the bench; return its file."""
    solvers = ('names = ["lyra-greedy", "scf"]', 'names = ["exact", "scf"]')
    path = write_study(("certify = true", 'headline = ["exact"]'), solvers, ("[10, 30]", "[30]"))
    monkeypatch.setattr(bench, "STUDIES", path.parent)
    return path.rename(path.with_name(f"{PART}.toml"))


def run(path, *more):
    """Run the study; return the exit code and when each run began."""
    folder = path.parent / "out"
    status = bench.main(["--only", PART, "--out", str(folder), *more])
    with ResultStore.open(folder / PART) as store:
        return status, [run.started_at for run in store.runs()]


@pytest.mark.slow
def test_a_study_is_run_shown_and_resumed(tiny, capsys):
    changes = ("--seeds", "3", "--time-limit", "4")
    status, first = run(tiny, *changes)
    assert (status, len(first)) == (0, 3 * 2 * 2)
    assert run(tiny, *changes, "--resume") == (0, first)
    folder = tiny.parent / "out"
    written = {path.name for path in (folder / PART).iterdir()}
    assert {"speed_by_group.csv", "speed_by_size.csv", "report.html"} <= written
    row = "| realistic (all families) | 10 | exact | 3 of 3 |"
    assert row in (folder / bench.PAGE).read_text()
    with pytest.raises(SystemExit) as refused:
        run(tiny, "--resume")
    assert refused.value.code == 2
    assert "has results of another study" in capsys.readouterr().err
    assert not set(run(tiny)[1]) & set(first)


@pytest.mark.slow
def test_contradicting_solvers_fail_the_bench(tiny, plugin):
    """`boasting` calls the first servers of the file optimal, which no checker can refute."""
    tiny.write_text(tiny.read_text().replace('"scf"', '"boasting"'))
    assert run(tiny)[0] == 1
    assert "contradictions between results" in (tiny.parent / "out" / bench.PAGE).read_text()
