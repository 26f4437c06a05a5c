"""The abstract's numbers as data, and what the pages say of ours."""

import re
from operator import attrgetter

import pytest

from lyra_opt.paper_figures.comparison import Source
from lyra_opt.paper_figures.dally import NOTHING, TIERS, TWO_SPEEDS, looks_at
from lyra_opt.paper_figures.dally_reductions import DALLY, OURS
from lyra_opt.paper_figures.document import find_paper
from lyra_opt.paper_figures.setting import Draw, PaperRun, Setting
from lyra_opt.paper_figures.verdicts import Verdict
from lyra_opt.simulation.scheme import find_scheme, scheme_names
from tests.paper_figures.made_up import by_scheme, made, publication
from tests.tables import tables

TABLES = tables(__file__)


CONGESTED = "batch-congested-2"


def given(of):
    """Return figures by scheme and scenario."""
    return by_scheme(TABLES["figures"], of, attrgetter("scheme", "scenario"))


@pytest.mark.parametrize(
    ("number", "column", "percent"), TABLES["claims_are_those_of_the_abstract"]
)
def test_claims_are_those_of_the_abstract(number, column, percent):
    """Each says where it is from; without runs nothing is claimed."""
    comparison = made("dally", "table", number)
    (entry,) = comparison.entries
    assert (entry.column, entry.paper, entry.source) == (column, percent, Source.ABSTRACT)
    assert entry.gain_verdict is Verdict.NOT_RUN
    assert "Not run" in comparison.as_markdown()


def test_up_to_is_the_largest_over_methods_that_the_claim_is_about():
    """Others, however slow, do not count; what is typical stands beside it."""
    small = "batch-congested-2-small"
    makespan_s = {
        (DALLY, CONGESTED): 36000.0,
        ("consolidated", CONGESTED): 40000.0,
        ("tiresias-skew", CONGESTED): 18000.0,
        ("no-wait", CONGESTED): 1e9,
        (DALLY, small): 36000.0,
        ("gandiva-affinity", small): 72000.0,
    }
    of = {run: {"makespan_s": value} for run, value in makespan_s.items()}
    comparison = made("dally", "table", 1, given(of))
    (entry,) = comparison.entries
    assert entry.ours == pytest.approx(50)
    assert entry.gain_verdict is Verdict.SAME_DIRECTION
    first = comparison.findings[0]
    assert "Dally needs up to 50 % less makespan" in first
    assert "against Gandiva (affinity), batch, congested-2, small machines" in first
    assert (
        "median over 3 pairs of a scenario and a method is 10 %, and the lowest is -100 %" in first
    )
    assert "In 1 of the pairs Dally needs over 1 % more" in first


def test_three_claims_of_a_row_are_of_one_situation():
    """Each row of its own runs; one that was not run has no number."""
    small = "batch-congested-2-small"
    slow = {"makespan_s": 144000.0, "jct_mean_s": 14400.0, "communication_s": 36000.0}
    of = {
        (DALLY, small): {},
        ("gandiva-shuffled", small): slow,
        ("consolidated", small): {"makespan_s": 1e9},
        ("gandiva-shuffled", CONGESTED): {"jct_mean_s": 1e9},
    }
    comparison = made("dally", "table", 5, given(of))
    rows = {entry.row for entry in comparison.entries}
    assert len(rows) == 3
    ours = {(entry.row, entry.column.split(" ")[0]): entry.ours for entry in comparison.entries}
    row = "batch, congested-2, small machines"
    found = [ours[row, name] for name in ("makespan", "mean", "communication")]
    assert found == pytest.approx([75, 75, 90])
    assert sum(value is None for value in ours.values()) == 6


def test_mean_over_seeds_is_of_ratios():
    """The geometric one, with the least and the greatest reduction beside it."""
    makespan_s = {DALLY: (36000.0, 36000.0), "consolidated": (36000.0, 144000.0)}
    of = {(name, CONGESTED): {"makespan_s": makespan_s[name]} for name in makespan_s}
    (entry,) = made("dally", "table", 1, given(of), seeds=2).entries
    assert entry.ours == pytest.approx(50)
    assert entry.spread == pytest.approx((0, 75))


def test_no_communication_at_all_is_no_division_by_zero():
    """0 against 0 is no reduction, and 0 against something is all of it."""
    of = {
        (scheme, CONGESTED): {"communication_s": communication_s}
        for scheme, communication_s in ((DALLY, 0.0), ("consolidated", 0.0), ("tiresias-skew", 1.0))
    }
    (entry,) = made("dally", "table", 3, given(of)).entries
    assert entry.ours == pytest.approx(100)


def test_every_situation_stands_in_the_table():
    """Not only the best; what was not run is no number; bounds stand beside."""
    of = {(name, CONGESTED): {} for name in (DALLY, OURS)}
    table = made("dally", "table", 2, given(of)).tables[0]
    assert len(table.rows) == 12
    row = dict(zip(table.header, table.rows[2], strict=True))
    shown = {"": "batch, congested-2", "Dally": "1", "consolidated": "–"}
    assert row.items() >= {**shown, "bound for any scheme": "0.5"}.items()


@pytest.mark.parametrize(
    ("scale", "jobs", "gpus"), [(1, 500, 256), (0.5, 250, 128), (0.01, 5, 128)]
)
def test_scale(scale, jobs, gpus):
    """Jobs and racks shrink alike, but two racks stay; small machines have as many GPUs."""
    setting = Setting(find_paper("dally"), scale, 1)
    assert f"{jobs} jobs on {gpus} GPUs" in setting.in_words()
    for scenario in ("batch-shipped", "batch-shipped-small"):
        setup = setting.task(PaperRun(scenario=scenario, scheme=DALLY), Draw()).setup()
        assert (len(setup.workload.jobs), setup.cluster.gpus) == (jobs, gpus)


def _listed(name):
    computed = publication("dally", "table", 4).computed
    return computed.parameters[name]


def test_all_schemes_stand_side_by_side():
    """By mean JCT, with who was left out and why, and sentences from the numbers."""
    jct_h = TABLES["jct_h"]
    of = {
        (scheme, scenario): {"jct_mean_s": 3600 * hours, "queue_mean_s": 0.0}
        for scheme, hours in jct_h.items()
        for scenario in (CONGESTED, "batch-free")
    }
    comparison = made("dally", "table", 4, given(of))
    congested, free, left_out = comparison.tables
    assert [row[0].split(" ")[1] for row in congested.rows[:-1]] == sorted(
        jct_h, key=lambda scheme: jct_h[scheme]
    )
    assert len(free.rows) == len(jct_h) + 1
    assert congested.rows[-1][4] == "0.5"
    assert {row[0] for row in left_out.rows} == set(_listed("left_out"))
    text = " ".join(comparison.findings)
    assert "priced-placement has the shortest mean JCT of 7 schemes, 2.0 h" in text
    assert "dally is number 5 with 8.0 h" in text
    assert (
        "ignores the network is lyra: its mean JCT, 4.0 h, is 50 % shorter than that "
        "of dally and 100 % longer than that of priced-placement" in text
    )
    assert "near GPUs (dally) the mean JCT is 20 % shorter than that of no-wait" in text
    assert "(best-fit) the mean JCT is 50 % shorter than with the gang first" in text
    assert "Spearman's rank correlation is 1.00" in text


def test_every_scheme_is_described():
    """A scheme that is new has to say who goes first, or why it is left out."""
    orders = _listed("orders")
    assert sorted([*orders, *_listed("left_out")]) == scheme_names()
    (product,) = publication("dally", "table", 4).products
    assert sorted(product.schemes) == sorted(orders)
    assert looks_at("dally") == TIERS
    assert looks_at("hadar") == TWO_SPEEDS
    assert looks_at("lyra") == looks_at("tiresias") == NOTHING


@pytest.mark.parametrize("scenario", [CONGESTED, "batch-free"])
def test_schemes_are_run_where_they_can(scenario):
    """Nothing stands in the way of those that are run; others would not run, or are alike."""
    setting = Setting(find_paper("dally"), 0.5, 1)
    setup = setting.task(PaperRun(scenario=scenario, scheme=DALLY), Draw()).setup()
    runs = {
        scheme.name
        for scheme in map(find_scheme, scheme_names())
        if scheme.obstacle(setup.workload, setup.cluster, setup.options.tenure(scheme.tenure))
        is None
    }
    can = {name for name, why in _listed("left_out").items() if re.search("equals|is newer", why)}
    assert runs == {*_listed("orders"), *can}
