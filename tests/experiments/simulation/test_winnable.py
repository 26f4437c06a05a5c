"""What could still be won: of means over seeds, beside the bound, split by decision."""

from __future__ import annotations

import pytest

import lyra_opt as lo
from lyra_opt.experiments.simulation.measuring.bounds import DECISIONS, decisions_of, winnable
from lyra_opt.experiments.simulation.measuring.measures import variants_of
from lyra_opt.experiments.simulation.showing.report import write_report

CHANGES = {"cluster.servers": 8, "jobs.parameters.days": 1}


def test_what_is_left_is_the_distance_to_the_bound() -> None:
    """A share of the wrong mean would promise gains that cannot be had."""
    runs = lo.simulate(
        "lyra-paper", schemes=["fifo", "lyra"], seeds=2, changes={**CHANGES, "bounds": True}
    )
    found = {each.scheme: each for each in winnable(variants_of(runs.replays.runs))}
    assert list(found) == ["fifo", "lyra"]
    for scheme, each in found.items():
        rows = runs.summary[runs.summary.scheme == scheme]
        shares = (1 - rows.jct_mean_bound_s / rows.jct_mean_s).tolist()
        assert each.shares == pytest.approx(shares)
        assert all(0 <= share < 1 for share in each.shares)
        above_s = (rows.jct_mean_s - rows.least_run_mean_s).mean()
        assert sum(each.parts_s.values()) == pytest.approx(above_s, rel=1e-6, abs=1e-6)
    assert decisions_of(list(found.values()))
    assert set(decisions_of(list(found.values()))) <= set(DECISIONS)
    page = write_report(runs.replays).read_text()
    assert "What could still be won" in page
    assert "can win more than" in page


def test_a_page_without_bounds_promises_nothing() -> None:
    """There is no distance to what was not proved."""
    runs = lo.simulate("lyra-paper", schemes=["fifo"], changes=CHANGES)
    assert not list(winnable(variants_of(runs.replays.runs)))
    assert "What could still be won" not in write_report(runs.replays).read_text()
