"""The page on single decisions says what was found, and decisions are captured as they were."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.simulation.carried_out import SimulationError
from instances.network.generated_jobs import dally_batch
from lyra_opt.network.captured import instance_of
from lyra_opt.network.one_epoch import state_of
from lyra_opt.simulation.scheme import Options
from paper_figures.dally import captured, epoch_gap
from paper_figures.dally.captured import captured_decisions
from paper_figures.dally.cases import Setting, Situation
from paper_figures.dally.epoch_gap import CAPTURED, DRAWN, EpochCase, Found, make_page
from paper_figures.report import page_as_markdown

SETTING = Setting(scale=0.1, seeds=1)


def found(optimum: float | None, *, keeps_timers: bool = True, **values: float) -> Found:
    """Return what came of a decision."""
    return Found(keeps_timers=keeps_timers, optimum=optimum, values=values)


def test_what_was_not_proved_is_counted_and_left_out() -> None:
    """Gaps are shares of proved optima; what timers forbid is told apart from the gap."""
    page = make_page(
        {
            (DRAWN, True): [found(8.0, dally=8.0), found(10.0, dally=5.0), found(None, dally=1.0)],
            (DRAWN, False): [
                found(10.0, keeps_timers=False, dally=10.0),
                found(10.0, keeps_timers=False, dally=5.0),
                found(None, keeps_timers=False, dally=1.0),
            ],
            (CAPTURED, True): [],
            (CAPTURED, False): [],
        }
    )
    sentences = page.answers()[0].sentences
    assert "On 2 drawn decisions" in sentences[0]
    assert "25.0 % less than the proved optimum in the mean (at most 50 %; 1 are" in sentences[0]
    assert "costs the best decision of the moment 10.0 % (drawn)" in sentences[2]
    assert "left out: 2" in sentences[3]
    assert "| Tiresias (skew) | 0 | – |" in page_as_markdown(page)


def test_nothing_is_missed_of_nothing() -> None:
    """An optimum of 0 is reached by all."""
    assert found(0.0, dally=0.0).gap("dally") == 0
    assert found(1.0).gap("dally") is None


def test_drawn_decision_from_end_to_end() -> None:
    """Proved by two solvers; no rule is above; without timers there is at least as much."""
    held, free = EpochCase(kind=DRAWN, network="congested-2", seed=0).run(SETTING)
    assert held.optimum is not None
    assert free.optimum is not None
    assert held.optimum <= free.optimum * (1 + 1e-9)
    assert max(free.values.values()) <= free.optimum * (1 + 1e-9)
    assert set(held.values) < set(free.values)


def test_captured_decision_is_the_one_that_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dally decides the same on the instance by itself, which the case checks; else no result."""
    monkeypatch.setattr(epoch_gap, "EVERY", 30)
    case = EpochCase(kind=CAPTURED, network="congested-2", seed=0)
    of = case.run(Setting(scale=0.05, seeds=1))
    assert len(of) >= 4
    assert {each.keeps_timers for each in of} == {True, False}

    def without_grants(*given: Any, **named: Any) -> Any:
        return [
            captured.Captured(instance=each.instance, solution=type(each.solution)(()))
            for each in captured_decisions(*given, **named)
        ]

    monkeypatch.setattr(epoch_gap, "captured_decisions", without_grants)
    with pytest.raises(SimulationError, match="was worth 0"):
        case.run(Setting(scale=0.05, seeds=1))


def test_instance_of_a_state_and_back() -> None:
    """No number is lost on the way, timers among them."""
    cluster = Situation(network="shipped").cluster(SETTING)
    first, *_ = captured_decisions(dally_batch(seed=1, jobs=12), cluster, Options(), every=1)
    state = state_of(first.instance).state
    assert instance_of(state, name=first.instance.name) == first.instance
