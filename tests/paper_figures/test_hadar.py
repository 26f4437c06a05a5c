"""The paper's numbers as data, and what the pages say of where they are from."""

import re

import pandas as pd
import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.paper_figures.comparison import Source
from lyra_opt.paper_figures.document import find_paper
from lyra_opt.paper_figures.setting import Draw, PaperRun, Setting
from lyra_opt.paper_figures.verdicts import Verdict
from tests.paper_figures.made_up import by_row, by_scheme, made
from tests.tables import tables

SIMULATED = [("table", 1), ("table", 2), ("table", 3), ("figure", 1)]

JOBS = pd.DataFrame({"submit_s": [0.0, 0.0], "completion_s": [1.0, 100.0], "jct_s": [1.0, 100.0]})
FIGURES = {**tables(__file__)["figures"], "table of jobs": JOBS}


@pytest.mark.parametrize(("kind", "number"), SIMULATED)
def test_every_number_says_where_it_is_from(kind, number):
    """None is from the text of the paper, which was not at hand; without runs none is claimed."""
    comparison = made("hadar", kind, number)
    assert comparison.entries
    assert all(entry.source is not Source.TEXT for entry in comparison.entries)
    assert "source of the paper's number" in comparison.header()
    assert {each for entry in comparison.entries for each in entry.verdicts} == {Verdict.NOT_RUN}


def test_tables_that_rest_on_memory_say_so_before_the_numbers():
    """Also how many of the numbers do; the others do not."""
    pages = {
        name: made("hadar", kind, number).as_markdown()
        for name, kind, number in (("1", "table", 1), ("2", "table", 2), ("slot", "figure", 1))
    }
    assert "2 of the paper's 4 numbers on this page are from memory" in pages["1"]
    assert pages["1"].index("from memory") < pages["1"].index("| row |")
    assert "All of the paper's numbers on this page are from memory" in pages["slot"]
    assert "numbers on this page" not in pages["2"]
    for name, what in (("1", "job classes"), ("2", "job classes"), ("slot", "the mixes")):
        assert re.search(rf"Part of the simulated setting is from memory: .*{what}", pages[name])


def test_ttd_over_hadars_is_the_geometric_mean_over_seeds():
    """With the least and the greatest beside it, and a verdict by the rule."""
    ttd_s = {"hadar": {"makespan_s": (100, 100)}, "gavel-las": {"makespan_s": (110, 140)}}
    entries = by_row(made("hadar", "table", 1, by_scheme(FIGURES, ttd_s), seeds=2))
    gavel = entries["Gavel (max-min)", "TTD over Hadar's"]
    assert gavel.ours == pytest.approx((1.1 * 1.4) ** 0.5)
    assert gavel.spread == pytest.approx((1.1, 1.4))
    assert gavel.gain_verdict is Verdict.REPRODUCED
    assert entries["YARN-CS", "TTD over Hadar's"].gain_verdict is Verdict.NOT_RUN


def test_bound_of_each_seed_says_what_no_scheduler_gains():
    """Of each seed the TTD over its bound, in the mean as gains are; ours may not be beyond it."""
    ttd_s = {"hadar": {}, "gavel-las": {}}
    figures = by_scheme({**FIGURES, "makespan_bound_s": (90.0, 80.0)}, ttd_s)
    comparison = made("hadar", "table", 1, figures, seeds=2)
    gavel = by_row(comparison)["Gavel (max-min)", "TTD over Hadar's"]
    assert gavel.bound.is_most
    assert gavel.bound.value == pytest.approx((100 / 90 * 100 / 80) ** 0.5)
    assert gavel.gain_verdict is Verdict.UNATTAINABLE  # 1.179 is less than what prints as 1.20
    assert "at most 1.179" in comparison.as_markdown()
    ttd_s["hadar"] = {"makespan_s": 70}
    with pytest.raises(UserError, match="but the proved bound is at most"):
        made("hadar", "table", 1, figures, seeds=2)


def test_costs_of_a_restart_from_which_on_the_claim_is_reached():
    """Where the bound forbids it nobody could; the least cost tried at which Hadar gains it."""
    las_s = {10: 105.0, 30: 112.0, 60: 118.0, 90: 122.0, 120: 130.0}

    def figures(run, draw):
        cost_s = dict(run.changes).get("tenure.rounds.restart_s", 10)
        ttd_s = las_s[cost_s] if run.scheme == "gavel-las" else 100.0
        return FIGURES | {"makespan_s": ttd_s, "makespan_bound_s": 95.0}

    comparison = made("hadar", "table", 4, figures)
    first, second = comparison.findings
    assert "gain over Gavel (max-min) is 1.05, and no scheduler can gain more than 1.11" in first
    assert "no scheduler can reach" in first
    assert "reaches 1.20 if a restart costs at least 90 s (gain 1.22)" in second
    assert len(comparison.tables[0].rows) == 5


def test_queuing_and_fairness_are_hadars_over_gavels():
    """A share below 1 is a gain there; the JCT is the other way round."""
    changed = {"hadar": {"queue_mean_s": 900.0}, "gavel-las": {"jct_mean_s": 9000.0}}
    entries = by_row(made("hadar", "table", 2, by_scheme(FIGURES, changed), seeds=2))
    assert entries["Gavel (max-min)", "mean JCT over Hadar's"].gain_verdict is Verdict.REPRODUCED
    queue = entries["Gavel (max-min)", "Hadar's mean queuing time over the scheme's"]
    assert queue.ours == pytest.approx(0.5)
    assert queue.gain_verdict is Verdict.SAME_DIRECTION  # 0.87 and 0.5: 1.74 times apart
    fairness = entries["Gavel (max-min)", "Hadar's mean finish-time fairness over the scheme's"]
    assert fairness.gain_verdict is Verdict.DIFFERS  # 1.0 is no change, 0.985 is one


def test_forking_is_a_mean_over_mixes():
    """Of HadarE's over that of the others, TTD and CRU alike."""
    changed = {"hadar": {}, "hadare": {"makespan_s": 50.0, "cru": 0.725}}

    def figures(run, draw):
        assert dict(draw.changes)["jobs.workload"].startswith("mix-")
        return by_scheme(FIGURES, changed)(run, draw)

    comparison = made("hadar", "table", 3, figures)
    entries = by_row(comparison)
    for row, column, verdict in (
        ("AWS, HadarE over Hadar", "TTD", Verdict.REPRODUCED),
        ("laboratory, HadarE over Hadar", "TTD", Verdict.FAR),
        ("AWS, HadarE over Hadar", "CRU", Verdict.REPRODUCED),
        ("AWS, HadarE over Gavel (max-min)", "CRU", Verdict.NOT_RUN),
    ):
        assert entries[row, column].gain_verdict is verdict
    assert [len(points) for points in comparison.series.values()] == 4 * [7]


def test_slot_of_least_ttd():
    """It is reproduced if it is the one remembered; ties go to the shorter slot."""
    ttd_s = {90: 1.2, 180: 1.1, 360: 1.0, 720: 1.0}

    def figures(run, draw):
        slot_s = dict(run.changes).get("tenure.rounds.round_s", 360)
        return FIGURES | {"makespan_s": ttd_s[slot_s]}

    entries = by_row(made("hadar", "figure", 1, figures))
    column = "slot of least TTD (s)"
    assert entries["HadarE, all mixes", column].value_verdict is Verdict.REPRODUCED
    assert entries["HadarE, M-1 to M-4", column].ours == 360
    assert entries["HadarE, M-1 to M-4", column].value_verdict is Verdict.DIFFERS


@pytest.mark.parametrize(
    ("scale", "jobs", "gpus"), [(1, 480, 60), (0.4, 192, 24), (0.01, 5, 24), (0.001, 1, 24)]
)
def test_scale(scale, jobs, gpus):
    """Jobs and servers shrink alike, but two servers of each type stay for gangs of 8."""
    setting = Setting(find_paper("hadar"), scale, 1)
    assert f"{jobs} jobs on {gpus} GPUs, {gpus // 3} each of" in setting.in_words()
    setup = setting.task(PaperRun(scenario="aws", scheme="hadar"), Draw()).setup()
    assert len(setup.cluster.own_servers) == 5
