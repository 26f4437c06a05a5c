"""A scenario of cases: others in turn, with schemes, seeds and keys of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lyra_opt as lo
from lyra_opt.core.errors import InputError
from lyra_opt.experiments.simulation.scenario.loading import (
    Change,
    absent_cases,
    load_scenario,
    variants,
)
from lyra_opt.experiments.simulation.showing.report import write_report

if TYPE_CHECKING:
    from pathlib import Path

CASES = """\
format = "lyra-opt/scenario"
version = 1
name = "several"
schemes = ["fifo", "sjf"]
cases = ["lyra-paper", "lyra-ideal", "philly"]
[axes]
"cluster.servers" = [3, 4]
[jobs.assumptions]
fungible_percent = 50
"""


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a file of three cases, the trace of the last of which is not there."""
    monkeypatch.setenv("LYRA_OPT_TRACES", str(tmp_path))
    path = tmp_path / "several.toml"
    path.write_text(CASES)
    return path


def test_cases_are_replayed_with_keys_of_the_file(several: Path) -> None:
    """What the file says comes before what a case says; axes come last."""
    scenario = load_scenario(str(several))
    found = variants(scenario)
    assert [point for point, _ in found] == [
        {"case": case, "cluster.servers": servers}
        for case in ("lyra-paper", "lyra-ideal")
        for servers in (3, 4)
    ]
    assumptions = [variant.table.jobs.assumptions for _, variant in found]
    assert all(each is not None and each.fungible_percent == 50 for each in assumptions)
    assert [each is not None and each.all_elastic for each in assumptions] == [
        *(False, False, True, True)
    ]
    assert [variant.table.cluster.servers for _, variant in found] == [3, 4, 3, 4]
    assert found[2][1].table.speed.mixed_efficiency == 1


@pytest.mark.slow
def test_a_case_without_its_trace_is_left_out_and_named(several: Path, tmp_path: Path) -> None:
    """What was not simulated must not look as if it had not been asked for."""
    assert absent_cases(load_scenario(str(several))) == {"philly": "philly_jobs.csv.gz"}
    runs = lo.simulate(
        several, changes={"axes": {"cluster.servers": [4]}, "jobs.parameters.days": 1}
    )
    assert list(runs.summary["case"]) == ["lyra-paper"] * 2 + ["lyra-ideal"] * 2
    page = write_report(runs.replays).read_text()
    assert "Case philly is left out: philly_jobs.csv.gz is not there." in page
    assert tmp_path.name not in page.replace(str(several), "")


def test_what_a_scenario_means_changes_with_its_cases(several: Path) -> None:
    """A store must not be resumed with other cases, nor once a trace has come."""
    scenario = load_scenario(str(several))
    fewer = load_scenario(str(several), [Change("cases", ["lyra-paper"])])
    assert scenario.meaning_hash != fewer.meaning_hash
    before = scenario.meaning_hash
    (several.parent / "philly_jobs.csv.gz").write_bytes(b"")
    assert load_scenario(str(several)).meaning_hash != before


@pytest.mark.parametrize(
    ("cases", "told"),
    [
        (["nowhere"], "cases .*nowhere.* is none: scenario 'nowhere'"),
        (["lyra-paper", "lyra-paper"], "must not have one twice"),
        (["philly"], "cases: not there: philly_jobs.csv.gz"),
        ([7], "cases"),
    ],
)
def test_cases_that_are_none_are_refused(several: Path, cases: list[object], told: str) -> None:
    """In a line that names the key."""
    with pytest.raises(InputError, match=told):
        variants(load_scenario(str(several), [Change("cases", cases)]))
