"""Tables of a study of preemption: each number equals the one computed by hand."""

import math

import pandas as pd
import pytest

from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.study import read_study
from lyra_opt.experiments.victims import main, summary, tables, victims_frame
from lyra_opt.instances.preemption.recorded import recorded_decisions
from lyra_opt.preemption import check
from lyra_opt.preemption.put_back import could_stay
from tests.tables import beside
from tests.tables import tables as read_tables

COLUMNS = ["group", "solver", "cell", "is_single", "optimum", "objective", "lost", "could_stay"]
ROWS = [dict(zip(COLUMNS, row, strict=False)) for row in read_tables(__file__)["by_hand"]]
BY_HAND = pd.DataFrame(ROWS).astype({"optimum": object, "objective": object})
BY_HAND["family"] = ["one", "one", "one", "one", "one", "two", "two"]


def test_summary_is_as_computed_by_hand():
    rule, exact, several = summary(BY_HAND).itertuples(index=False)
    assert rule[:4] == ("g", "rule", 4, 1)
    assert list(rule[4:]) == pytest.approx([25.0, 70 / 3, 20.0, 100 * 7 / 40, 100 / 3, 10.0])
    assert exact[2:] == (1, 0, 100.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    # Integers above 2^53 are compared exactly, and codes of several terms have no percentage.
    expected = [2, 0, 50.0, math.nan, math.nan, math.nan, 50.0, 50.0]
    assert list(several[2:]) == pytest.approx(expected, nan_ok=True)


def test_tables_name_each_group():
    text = tables(BY_HAND)
    assert text.count("| solver | cases |") == 2
    assert "all groups" not in text
    joined = tables(BY_HAND[BY_HAND.is_single].assign(group=[*"ggghh"]))
    assert "one (all groups)\n\n| solver |" in joined
    assert joined.count("| rule | 4 | 1 | 25.0 |") == 1, "the family has the cases of both groups"
    assert "| rule | 4 | 1 | 25.0 | 23.3 | 20.0 | 17.5 | 33.3 | 10.0 |" in text
    assert "| rule | 2 | 0 | 50.0 | – | – | – | 50.0 | 50.0 |" in text


def test_rows_are_the_runs_that_need_victims(write, tmp_path, capsys):
    path = write(beside(__file__, "victims_study.toml"), "victims.toml")
    assert run_study(read_study(path), tmp_path / "out", engine=LocalProcesses(1)) == 0
    frame = victims_frame(tmp_path / "out")
    assert set(frame.group) == {"recorded", "trap"}, "no victims are needed in the others"
    assert set(frame[~frame.is_single].group) == {"trap"}
    slurm = frame[(frame.group == "recorded") & (frame.solver == "slurm")]
    for decision, row in zip(recorded_decisions("slurm"), slurm.itertuples(), strict=False):
        report = check(decision.instance, decision.solution)
        assert (row.objective, row.lost) == (report.objective, report.lost_pods_in_all)
        assert row.could_stay == sum(could_stay(decision.instance, decision.solution).values())
    exact = summary(frame).set_index(["group", "solver"]).loc["recorded", "exact"]
    assert (exact.cases, exact.optimal, exact.total) == (2, 100.0, 0.0)
    assert main(str(tmp_path / "out")) == 0
    assert "trap\n\n| solver |" in capsys.readouterr().out


def test_other_results_are_refused(write_study, tmp_path, capsys):
    assert run_study(read_study(write_study()), tmp_path / "out", engine=LocalProcesses(1)) == 0
    assert main(str(tmp_path / "out")) == 2
    assert "must have the results of a study of preemption" in capsys.readouterr().err
