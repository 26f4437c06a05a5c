"""The bench from end to end: benchmarks of the smallest size, and the runs of a study."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from lyra_opt.experiments.bench import __main__ as bench
from lyra_opt.experiments.bench.targets import SMALL_VARIABLE
from lyra_opt.experiments.store import ResultStore
from tests.experiments.bench.test_targets import BENCHMARKS
from tests.experiments.records import make_run, make_study

OPTIONS = ("-q", "-p", "no:cacheprovider", "-W", "ignore", "-o", "timeout=0")


@pytest.mark.slow
@pytest.mark.parametrize("part", BENCHMARKS)
def test_benchmarks_measure_every_target(part, tmp_path):
    """All but what needs a trace, or the kernels that set-up compiles, and all of them pass."""
    module = Path(bench.__file__).with_name(f"{part}.py")
    command = [sys.executable, "-m", "pytest", module, *OPTIONS]
    command += [f"--benchmark-json={tmp_path / part}.json"]
    # pytest-benchmark times nothing in a worker of xdist.
    plain = {k: each for k, each in os.environ.items() if not k.startswith("PYTEST_XDIST")}
    subprocess.run(command, env=plain | {SMALL_VARIABLE: "1"}, check=True)
    status = bench.main([str(tmp_path)])
    figures = pd.read_csv(tmp_path / "figures.csv")
    assert status == int("MISSED" in set(figures.verdict)), "a miss alone gives another exit code"
    figures = figures[figures.part == part]
    missing = figures[figures.runs == 0].what
    assert missing.str.contains("Philly|ITP|user's own file|after set-up").all()
    assert len(missing) < len(figures)
    assert "Measured on" in (tmp_path / bench.PAGE).read_text()


@pytest.mark.parametrize(("time_s", "verdict"), [(0.4, "reached"), (0.6, "MISSED")])
def test_runs_of_a_study_are_compared_with_their_targets(time_s, verdict, tmp_path):
    """A target of a part that nobody has measured is not missed."""
    run = make_run("c", "scf", "feasible", objective=1, wall_time_s=time_s, time_limit_s=0.3)
    with ResultStore.create(tmp_path / "reclaim-overshoot", make_study(1)) as store:
        store.add(run)
    assert bench.main([str(tmp_path)]) == int(verdict == "MISSED")
    figures = pd.read_csv(tmp_path / "figures.csv").set_index("what")
    assert figures.verdict["reclaim, beyond 0.3 s: scf"] == verdict
    assert set(figures.remark[figures.runs == 0]) == {"not measured"}


def test_a_store_that_is_none_is_one_line(tmp_path, capsys):
    (tmp_path / "reclaim-speed").mkdir()
    with pytest.raises(SystemExit) as refused:
        bench.main([str(tmp_path)])
    assert refused.value.code == 2
    assert "has no store of results" in capsys.readouterr().err
