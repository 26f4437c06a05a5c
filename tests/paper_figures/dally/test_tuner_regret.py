"""The page on the auto-tuner's regret says what its numbers say."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from experiments.simulation.carried_out import SimulationError
from experiments.tuning.timer_space import BASELINES
from lyra_opt.network.class_timers import ClassTimers, TimerClass
from paper_figures.dally import tuner_regret
from paper_figures.dally.schemes import DALLY, SRTF
from paper_figures.dally.tuner_regret_cases import (
    BEST_FIXED,
    PLACES,
    SPACE,
    Clairvoyant,
    Regret,
    Tuned,
    combined,
)
from paper_figures.dally.tuner_regret_plot import tuner_regret_plot
from paper_figures.report import page_as_markdown

HOUR_S = 3600.0
TIMERS = ClassTimers(
    (
        TimerClass(largest_gang=8, rack_leases=math.inf, network_leases=3),
        TimerClass(largest_gang=32, rack_leases=0, network_leases=5),
    )
)


def tuned(*, auto: tuple[float, float], fresh_auto: tuple[float, float]) -> Tuned:
    """Return rules of which the best fixed timers have 10 and 20 h on all draws."""
    best = (10 * HOUR_S, 20 * HOUR_S)
    known = dict.fromkeys(BASELINES, (12 * HOUR_S, 24 * HOUR_S))
    known |= {BEST_FIXED: best, SRTF: (8 * HOUR_S, 16 * HOUR_S)}
    return Tuned(
        timers=TIMERS,
        auto_leases={choice.name: (6.5, 7.0) for choice in SPACE.choices[:1]},
        jct_s=known | {DALLY: tuple(HOUR_S * each for each in auto)},
        fresh_jct_s=known | {DALLY: tuple(HOUR_S * each for each in fresh_auto)},
    )


def clairvoyant(found_h: float) -> Clairvoyant:
    """Return a bound of 5 h, what was found, and 3 h more with timers alone."""
    return Clairvoyant(
        bound_s=5 * HOUR_S, timers_s=(found_h + 3) * HOUR_S, found_s=found_h * HOUR_S
    )


def regret_of(*, auto: tuple[float, float], fresh_auto: tuple[float, float]) -> Regret:
    """Return the same in the first place."""
    return combined(
        PLACES[0],
        tuned(auto=auto, fresh_auto=fresh_auto),
        [clairvoyant(6), clairvoyant(17)],
    )


def test_rules_that_beat_the_search_are_what_was_found() -> None:
    """Shortest remaining time has 16 h on the second draw, where the search has 17."""
    found = regret_of(auto=(11, 22), fresh_auto=(10, 19))
    assert found.found_s == (6 * HOUR_S, 16 * HOUR_S)
    assert found.timers_s == (9 * HOUR_S, 20 * HOUR_S)


def test_a_schedule_below_the_bound_is_no_result() -> None:
    """One of the two is wrong then."""
    with pytest.raises(SimulationError, match="is proved to be the least"):
        combined(
            PLACES[0], tuned(auto=(11, 22), fresh_auto=(10, 19)), [clairvoyant(4), clairvoyant(17)]
        )


def test_answers_say_how_far_and_in_which_direction() -> None:
    """By hand: 33 h over 30 h, 29 h over 30 h, 33 over 36, and 30 over 29, 22 and 10 h."""
    page = tuner_regret.make_page([regret_of(auto=(11, 22), fresh_auto=(10, 19))])
    tuner, schedule = page.answers()
    first, floors = tuner.sentences
    assert "10.0 (10.0 to 10.0) % above" in first
    assert "on fresh draws 3.3 % below theirs" in first
    assert "-8.3 to -8.3 %" in floors
    first, shares = schedule.sentences
    assert "3.4 % above clairvoyant timers" in first
    assert "36.4 % above the best schedule found" in first
    assert "200.0 % above any" in first
    assert "120.0 % above the optimum" in first
    assert "27.3 % are the tuner's" in shares  # 3 h of 11; 1 h is the timers', and 7 the order's
    assert "9.1 % what clairvoyant timers add, and 63.6 % the order" in shares
    text = page_as_markdown(page)
    assert "| batch, shipped, rack timer of gangs that fit a machine | for ever | 6.5 (7) |" in text
    assert "| batch, shipped, network timer of gangs that fit a rack | 5 | – |" in text


def test_the_plot_shows_every_place() -> None:
    """Timers for ever included."""
    each = regret_of(auto=(11, 22), fresh_auto=(10, 19))
    found = [replace(each, place=place) for place in PLACES]
    plot = tuner_regret_plot(tuner_regret.make_page(found))
    assert plot.name == "tuner_regret"
    for place in PLACES:
        assert place.in_words in plot.svg
    assert "ever" in plot.svg
