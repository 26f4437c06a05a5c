"""The abstract's numbers as data, and what the pages say of ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.simulation.scheme import Options, find_scheme, scheme_names
from paper_figures.comparison import Entry, Source, Verdict
from paper_figures.dally import (
    catalogue,
    figure_1,
    figure_3,
    table_1,
    table_2,
    table_3,
    table_4,
)
from paper_figures.dally.cases import (
    SLOWEST,
    BoundCase,
    Results,
    Setting,
    Situation,
    SituationCase,
    cases_of,
)
from paper_figures.dally.schemes import CONSOLIDATION, DALLY, NAMES, OURS, SCHEMES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paper_figures.comparison import Comparison

SETTING = Setting(scale=0.5, seeds=1)
CONGESTED = Situation(network="congested-2")

METRICS = {
    "jct_mean_s": 3600.0,
    "jct_p95_s": 7200.0,
    "queue_mean_s": 1800.0,
    "queue_p95_s": 3600.0,
    "makespan_s": 36000.0,
    "communication_s": 3600.0,
    "communication_share": 0.5,
    "gpu_s_by_tier": {"machine": 3.0, "rack": 1.0, "network": 0.0},
    "preemptions_per_submission": 2.0,
    "gpu_usage": 0.6,
}


def metrics(**changes: Any) -> Any:
    """Return figures of a run."""
    return SimpleNamespace(**METRICS | changes)


def results(
    of: Mapping[tuple[str, Situation], Any], *, setting: Setting = SETTING, **bounds: float
) -> Results:
    """Return results that hold these figures for every seed."""
    found: dict[Any, Any] = {
        case: figures
        for (scheme, situation), figures in of.items()
        for case in cases_of([scheme], [situation], setting)
    }
    if bounds:
        found[BoundCase(situation=CONGESTED)] = bounds
    return Results(setting, found)


def by_column(comparison: Comparison) -> dict[str, Entry]:
    """Return entries by column."""
    return {entry.column: entry for entry in comparison.entries}


def test_claims_are_those_of_the_abstract() -> None:
    """Up to 69 % makespan, 83 % JCT and 98 % communication; each says where it is from."""
    for module, column, percent in (
        (table_1, "makespan less by (%)", "69"),
        (table_2, "mean JCT less by (%)", "83"),
        (table_3, "communication of a job less by (%)", "98"),
    ):
        (entry,) = module.compare(Results(SETTING)).entries
        assert (entry.column, entry.paper, entry.source) == (column, percent, Source.ABSTRACT)


def test_without_runs_nothing_is_claimed() -> None:
    """Every verdict is that it was not run, and pages are made all the same."""
    for publication in catalogue.ALL:
        comparison = publication.module.compare(Results(SETTING))
        assert set(comparison.verdicts) <= {"not run"}
        text = comparison.as_markdown()
        assert "Not run" in text or publication.kind == "figure"
        assert ("No number of the paper" in text) == (not comparison.entries)


@pytest.mark.parametrize(
    ("percent", "verdict"),
    [
        (69.0, Verdict.REPRODUCED),
        (67.0, Verdict.REPRODUCED),  # 3.03 times against 3.23
        (60.0, Verdict.SAME_DIRECTION),
        (100.0, Verdict.SAME_DIRECTION),
        (0.5, Verdict.DIFFERS),
        (-40.0, Verdict.DIFFERS),
    ],
)
def test_verdict_of_a_reduction_is_that_of_the_gain(percent: float, verdict: Verdict) -> None:
    """The same rule as everywhere: 69 % less is 3.23 times better."""
    entry = Entry.published_reduction("row", "less by (%)", "69", percent)
    assert entry.verdict is verdict
    assert entry.paper_gain == pytest.approx(100 / 31)


def test_up_to_is_the_largest_over_methods_that_the_claim_is_about() -> None:
    """Others, however slow, do not count; what is typical stands beside it."""
    small = Situation(network="congested-2", has_small_machines=True)
    of = {
        (DALLY, CONGESTED): metrics(),
        ("consolidated", CONGESTED): metrics(makespan_s=40000.0),
        ("tiresias-skew", CONGESTED): metrics(makespan_s=18000.0),
        ("no-wait", CONGESTED): metrics(makespan_s=1e9),
        (DALLY, small): metrics(),
        ("gandiva-affinity", small): metrics(makespan_s=72000.0),
    }
    comparison = table_1.compare(results(of))
    (entry,) = comparison.entries
    assert entry.ours == pytest.approx(50)
    assert entry.verdict is Verdict.SAME_DIRECTION
    first = comparison.findings[0]
    assert "Up to 50 % less makespan" in first
    assert "against Gandiva (affinity), batch, congested-2, small machines" in first
    assert "median over 3 pairs of a situation and a method is 10 %, the least -100 %" in first
    assert "In 1 of them Dally needs more" in first


def test_mean_over_seeds_is_of_ratios() -> None:
    """The geometric one, with the least and the greatest reduction beside it."""
    setting = Setting(scale=0.5, seeds=2)
    found: dict[Any, Any] = {}
    for seed, other_s in enumerate((36000.0, 144000.0)):
        for scheme, makespan_s in ((DALLY, 36000.0), ("consolidated", other_s)):
            case = SituationCase(scheme=scheme, situation=CONGESTED, seed=seed)
            found[case] = metrics(makespan_s=makespan_s)
    (entry,) = table_1.compare(Results(setting, found)).entries
    assert entry.ours == pytest.approx(50)
    assert entry.spread == pytest.approx((0, 75))


def test_no_communication_at_all_is_no_division_by_zero() -> None:
    """0 against 0 is no reduction, and 0 against something is all of it."""
    of = {
        (scheme, CONGESTED): metrics(communication_s=communication_s)
        for scheme, communication_s in ((DALLY, 0.0), ("consolidated", 0.0), ("tiresias-skew", 1.0))
    }
    (entry,) = table_3.compare(results(of)).entries
    assert entry.ours == pytest.approx(100)


def test_every_setting_stands_in_the_table() -> None:
    """Not only the best; what was not run is no number; bounds stand beside."""
    of = {(scheme, CONGESTED): metrics() for scheme in (DALLY, OURS)}
    comparison = table_2.compare(results(of, jct_mean_s=1800.0, makespan_s=1.0))
    table = comparison.tables[0]
    assert [row[0] for row in table.rows] == [each.in_words for each in table_2.SITUATIONS]
    row = dict(zip(table.header, table.rows[2], strict=True))
    assert row[NAMES[DALLY]] == "1"
    assert row["consolidated"] == "–"
    assert row["bound for any scheme"] == "0.5"


def test_slowest_links_are_run_for_the_claim_alone() -> None:
    """Elsewhere every scheme is."""
    for network in ("shipped", SLOWEST):
        cases = cases_of(SCHEMES, [Situation(network=network)], SETTING)
        expected = {DALLY, *CONSOLIDATION} if network == SLOWEST else set(SCHEMES)
        assert {case.scheme for case in cases} == expected


@pytest.mark.parametrize(
    ("scale", "jobs", "gpus"), [(1, 500, 256), (0.5, 250, 128), (0.01, 5, 128)]
)
def test_scale(scale: float, jobs: int, gpus: int) -> None:
    """Jobs and racks shrink alike, but two racks stay; small machines have as many GPUs."""
    setting = Setting(scale=scale, seeds=1)
    assert (setting.jobs, setting.topology.gpus) == (jobs, gpus)
    assert setting.small_machines.gpus == gpus
    assert f"{jobs} jobs on {gpus} GPUs" in setting.in_words()


def test_links_of_figure_1_say_what_they_mean() -> None:
    """Also that the shipped network is wider than the rack."""
    table = figure_1.compare(Results(SETTING)).tables[0]
    rows = {row[0]: row for row in table.rows}
    assert rows["shipped"][1] == "200"
    assert rows["shipped"][5] == "400"
    assert "wider than the links within them" in figure_1.compare(Results(SETTING)).notes[0]


def test_missing_traces_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has none reads that nothing was run, and which files it takes."""
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    text = figure_3.compare(Results(SETTING)).as_markdown()
    assert "Not run: ITP 2021 and Philly" in text
    assert "philly_jobs.csv.gz" in text
    assert not any(case.is_known for case in figure_3.cases(SETTING))


def test_all_schemes_stand_side_by_side() -> None:
    """By mean JCT, with who was left out and why, and sentences from the numbers."""
    jct_h = {
        "dally": 8.0,
        "no-wait": 10.0,
        "best-fit": 5.0,
        "srtf-network": 2.5,
        "lyra": 4.0,
        "hadar": 16.0,
        OURS: 2.0,
    }
    of = {
        (scheme, situation): metrics(jct_mean_s=3600 * hours, queue_mean_s=0.0)
        for scheme, hours in jct_h.items()
        for situation in table_4.SITUATIONS
    }
    comparison = table_4.compare(results(of, jct_mean_s=1800.0, makespan_s=3600.0))
    congested, free, left_out = comparison.tables
    assert [row[0].split(" ")[1] for row in congested.rows[:-1]] == sorted(
        jct_h, key=lambda scheme: jct_h[scheme]
    )
    assert congested.rows[-1][4] == "0.5"
    assert len(free.rows) == len(jct_h)
    assert {row[0] for row in left_out.rows} == set(table_4.LEFT_OUT)
    text = " ".join(comparison.findings)
    assert "priced-placement has the shortest mean JCT of 7 schemes, 2.0 h" in text
    assert "dally is number 5 with 8.0 h" in text
    assert (
        "looks at nothing of the network is lyra: its mean JCT, 4.0 h, is 50 % shorter than that "
        "of dally and 100 % longer than that of priced-placement" in text
    )
    assert "at best (dally), makes the mean JCT 20 % shorter than that of no-wait" in text
    assert "(best-fit) the mean JCT is 50 % shorter than with most hurt first" in text
    assert "Spearman's 1.00" in text


def test_every_scheme_is_described() -> None:
    """A scheme that is new has to say who goes first, or why it is left out."""
    assert sorted([*table_4.ORDERS, *table_4.LEFT_OUT]) == scheme_names()
    looks = {scheme: table_4.looks_at(scheme) for scheme in table_4.ORDERS}
    assert looks["dally"] == table_4.TIERS
    assert looks["hadar"] == table_4.TWO_SPEEDS
    assert looks["lyra"] == looks["tiresias"] == table_4.NOTHING


@pytest.mark.parametrize("situation", table_4.SITUATIONS)
def test_schemes_are_run_where_they_can(situation: Situation) -> None:
    """Nothing stands in the way of those that are run; others would not run, or are alike."""
    workload, cluster = situation.workload(SETTING, 0), situation.cluster(SETTING)
    schemes = map(find_scheme, scheme_names())
    runs = {
        scheme.name
        for scheme in schemes
        if scheme.obstacle(workload, cluster, Options().tenure(scheme.tenure)) is None
    }
    alike = {name for name, why in table_4.LEFT_OUT.items() if " so it is " in why}
    assert runs == {*table_4.ORDERS, *alike}
