"""Targets: how they are evaluated, and that each is about something that is measured."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from lyra_opt.experiments.analysis import Analysis
from lyra_opt.experiments.bench.targets import (
    STATISTICS,
    figures_of,
    figures_table,
    read_targets,
    study_frame,
)
from lyra_opt.experiments.command import STUDIES
from lyra_opt.experiments.compile_kernels import has_backend
from lyra_opt.experiments.study import read_study
from tests.experiments.conftest import REPOSITORY
from tests.experiments.records import make_runs
from tests.tables import tables

TABLES = tables(__file__)
TARGETS = read_targets()
MAKEFILE = (REPOSITORY / "Makefile").read_text()
BENCHMARKS, SPEED_STUDIES = (
    MAKEFILE.partition(f"\n{name} := ")[2].splitlines()[0].split()
    for name in ("BENCHMARKS", "SPEED_STUDIES")
)


MEASURED = pd.DataFrame(
    [("a1", "a", 1.0, 40, 0.5), ("a2", "a", 3.0, 10, 2.0), ("b1", "b", 8.0, 20, None)],
    columns=["key", "cell", "time_s", "size", "optimum"],
)


def figures(**columns):
    """Return the figures of a target on `MEASURED`: by default the maximum, at most 4 s."""
    plain = {"part": "p", "what": "times", "rows": "", "measure": "time_s", "unit": "s", "by": ""}
    plain |= {"statistic": "maximum", "bound": "at most", "limit": 4.0}
    return list(figures_of(SimpleNamespace(**plain | columns), MEASURED))


@pytest.mark.parametrize(("statistic", "value"), TABLES["statistics"])
def test_statistics(statistic, value):
    (figure,) = figures(statistic=statistic)
    assert figure["measured"] == pytest.approx(value)


def test_verdicts():
    (missed,) = figures()
    assert (missed["verdict"], missed["runs"]) == ("MISSED", 3)
    assert missed["remark"] == "1 above the limit: b1: 8"
    (reached,) = figures(rows="cell == 'a'", unit="ms", limit=3000.0)
    assert (reached["measured"], reached["verdict"], reached["remark"]) == (3000.0, "reached", "")
    by_cell = figures(by="cell", bound="at least", limit=4.0)
    assert [(each["what"], each["verdict"]) for each in by_cell] == [
        ("times: a", "MISSED"),
        ("times: b", "reached"),
    ]
    (plain,) = figures(bound="", limit=math.nan)
    (none,) = figures(rows="cell == 'c'")
    assert (plain["verdict"], none["runs"], none["remark"]) == ("", 0, "not measured")
    assert figures_table([plain, none]).rows()[0][:6] == (
        "times",
        "3",
        "3.00",
        "8.00",
        "maximum",
        "8.00",
    )


def test_runs_are_compared_with_the_best_reference_of_each_instance():
    """A run without a proof counts as the limit; what only a reference proves is beaten."""
    runs = make_runs(TABLES["runs"], time_limit_s=10.0, objective=3)
    frame = study_frame(Analysis(runs)).iloc[:2]
    assert list(frame.rival_ratio) == pytest.approx([0.4 / 1.1, 1.0 / 10.0])
    assert list(frame.is_beaten) == [False, True]
    assert list(frame.proof_s) == [0.1, math.inf]
    assert list(frame.certified_s) == pytest.approx([1.1, 11.1])
    assert list(frame.gap_percent) == [0.0, 50.0]
    assert list(frame.bound_gap_percent) == pytest.approx([0.0, 100 / 3])
    assert list(frame.overshoot_s) == pytest.approx([0.0, 0.1])
    assert not frame.has_backend.any()


@pytest.mark.parametrize(("problem", "solver", "expected"), TABLES["backends"])
def test_models_have_a_backend(problem, solver, expected):
    """Models are held to the limits of backends, also those that are outside formulations."""
    assert has_backend(problem, solver) is expected


def test_targets_can_be_evaluated():
    assert list(dict.fromkeys(TARGETS.part)) == [*BENCHMARKS, *SPEED_STUDIES]
    assert set(TARGETS.statistic) <= STATISTICS.keys()
    assert set(TARGETS.bound) == {"", "at most", "at least"}
    assert ((TARGETS.bound == "") == TARGETS.limit.isna()).all()


@pytest.mark.parametrize("part", SPEED_STUDIES)
def test_targets_select_runs_of_their_study(part):
    """A query with a misspelt group or solver would leave a target without a figure for ever."""
    study = read_study(STUDIES / f"{part}.toml")
    planned = pd.DataFrame(
        {
            **dict(cell.parameters),
            "family_group": cell.group,
            "family": cell.family,
            "solver": configuration.solver,
            "time_limit_s": configuration.time_limit_s,
            "size": dict(cell.parameters).get("servers", 0),
            "has_backend": has_backend(study.problems[0], configuration.solver),
            "is_answered": True,
        }
        for cell, configuration in study.runs()
    )
    for query in filter(None, TARGETS.rows[TARGETS.part == part]):
        assert len(planned.query(query, engine="python")), query
