"""Timers by demand class, and their files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.network.class_timers import (
    ClassTimers,
    TimerClass,
    read_timers,
    timers_text,
)
from tests.conftest import assert_refused

if TYPE_CHECKING:
    from pathlib import Path

LEASES = st.floats(min_value=0, max_value=1e6) | st.just(math.inf)


@st.composite
def class_timers(draw: st.DrawFn) -> ClassTimers:
    """Return timers of one to four classes."""
    gangs = sorted(draw(st.sets(st.integers(1, 1000), min_size=1, max_size=4)))
    return ClassTimers(
        tuple(
            TimerClass(largest_gang=gang, rack_leases=draw(LEASES), network_leases=draw(LEASES))
            for gang in gangs
        )
    )


@given(timers=class_timers())
def test_what_is_written_is_read_again(
    timers: ClassTimers, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A file that tuning leaves is worth what it found, for ever and fractions included."""
    path = tmp_path_factory.mktemp("timers") / "timers.toml"
    path.write_text(timers_text(timers, ("A remark\nof two lines.",)))
    assert read_timers(path) == timers


def test_they_are_said_in_words() -> None:
    """People read them on the terminal."""
    timers = ClassTimers(
        (
            TimerClass(largest_gang=8, rack_leases=6, network_leases=math.inf),
            TimerClass(largest_gang=64, rack_leases=0, network_leases=1.5),
        )
    )
    assert timers.in_words() == "gangs of 1 to 8: 6 / for ever; gangs of 9 to 64: 0 / 1.5"


CLASS = "[[class]]\nlargest_gang = 8\nrack_leases = 1\nnetwork_leases = 2\n"
HEAD = 'format = "lyra-opt/timers"\nversion = 1\n'


@pytest.mark.parametrize(
    ("text", "part"),
    [
        pytest.param(CLASS, "format is missing", id="no format"),
        pytest.param(HEAD, "class is missing", id="no class"),
        pytest.param(HEAD + "class = []", "class is []: must have at least one entry", id="empty"),
        pytest.param(HEAD + "class = 3", "class is 3: must be a list", id="no list"),
        pytest.param(HEAD + CLASS * 2, "class[1].largest_gang is 8: must be above", id="order"),
        pytest.param(
            HEAD + CLASS.replace("= 1", "= -1"), "class[0].rack_leases is -1", id="negative"
        ),
        pytest.param(
            HEAD + CLASS.replace("= 2", "= nan"), "class[0].network_leases is NaN", id="no number"
        ),
        pytest.param(
            HEAD + CLASS.replace("= 8", "= 0"), "class[0].largest_gang is 0", id="no gang"
        ),
        pytest.param(HEAD + CLASS + "rack = 1", "class[0].rack is 1: unknown key", id="unknown"),
        pytest.param("format = ", "is not valid TOML", id="no TOML"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, text: str, part: str) -> None:
    """The line says which file, field and rule."""
    path = tmp_path / "timers.toml"
    path.write_text(text)
    assert_refused(read_timers, path, part)


def test_there_is_at_least_one_class() -> None:
    """Timers of nobody say nothing."""
    with pytest.raises(FieldError, match="class is"):
        ClassTimers(())
