"""What one who knows all jobs could have, beside timers: told apart, bounded, and by axes."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import pytest

from lyra_opt.experiments.simulation.carried_out import SimulationError
from lyra_opt.experiments.tuning.clairvoyant import (
    BOUND,
    IN_DALLYS_ORDER,
    SCHEDULE,
    TIMERS,
    Clairvoyant,
    compared_with,
    shares_in_words,
)
from lyra_opt.experiments.tuning.outcome import AUTO_TUNER, TUNED, Compared
from lyra_opt.simulation.network.class_timers import read_timers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = "srtf-network"


def rules(*, auto: tuple[float, float]) -> tuple[Compared, ...]:
    """Return rules of which the best fixed timers have 10 and 20 s, and another one 8 and 16."""
    known = dict.fromkeys(IN_DALLYS_ORDER, (12.0, 24.0))
    known |= {AUTO_TUNER: auto, TUNED: (10.0, 20.0), OTHER: (8.0, 16.0)}
    return tuple(Compared(name=name, jct_s=jct_s) for name, jct_s in known.items())


def found(schedule_s: float) -> Clairvoyant:
    """Return a bound of 5 s, what was found, and 3 s more with timers alone."""
    return Clairvoyant(bound_s=5.0, timers_s=schedule_s + 3, schedule_s=schedule_s)


def test_rules_that_beat_the_search_are_what_was_found() -> None:
    """The other rule has 16 s on the second draw, where the search has 17; it keeps no order."""
    rows = compared_with(rules(auto=(11.0, 22.0)), [found(6), found(17)])
    assert {row.name: row.jct_s for row in rows} == {
        TIMERS: (9.0, 20.0),
        SCHEDULE: (6.0, 16.0),
        BOUND: (5.0, 5.0),
    }


def test_a_schedule_below_the_bound_is_no_result() -> None:
    """One of the two is wrong then."""
    with pytest.raises(SimulationError, match="is proved to be the least"):
        compared_with(rules(auto=(11.0, 22.0)), [found(4), found(17)])


def test_the_distance_is_split_without_remainder() -> None:
    """By hand: of 11 s the tuner has 3, timers 1 and the order 7."""
    compared = rules(auto=(11.0, 22.0))
    rows = compared_with(compared, [found(6), found(17)])
    words = shares_in_words((*compared, *rows))
    assert "27.3 % are the tuner's" in words
    assert "9.1 % what clairvoyant timers add" in words
    assert "63.6 % the order" in words
    level = rules(auto=(6.0, 16.0))
    assert "No schedule" in shares_in_words((*level, *compared_with(level, [found(6), found(17)])))


def test_each_point_of_the_axes_is_answered(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    """With timers and results of its own, and no rule better than what is proved."""
    folder = tmp_path / "tuned"
    code, out, err = run(
        *("tune-timers", "tuner-regret", "--set", "jobs.parameters.jobs=8", "--trials", 4),
        *("--set", 'axes={"cluster.network.links"=["shipped", "congested-2"]}'),
        *("--seeds", 1, "--clairvoyant", 1, "--processes", 1, "--out", folder, "--json"),
    )
    assert code == 0, err
    records = json.loads(out)
    assert [record["network"] for record in records] == ["shipped", "congested-2"]
    for record in records:
        (links,) = record["axes"].values()
        here = folder / f"cluster.network.links = {links}"
        assert json.loads((here / "tuning.json").read_text()) == record
        assert read_timers(here / "timers.toml").classes
        compared = {row["name"]: row for row in record["compared"]}
        assert {OTHER, "priced-placement", AUTO_TUNER, TUNED} < set(compared)
        least_s = compared[BOUND]["jct_mean_s"]
        assert least_s <= compared[SCHEDULE]["jct_mean_s"] * (1 + 1e-9)
        assert compared[SCHEDULE]["jct_mean_s"] == min(
            row["jct_mean_s"] for name, row in compared.items() if name != BOUND
        )
        assert math.isfinite(compared[OTHER]["fresh_jct_mean_s"])
        assert compared[SCHEDULE]["fresh_jct_mean_s"] is None
