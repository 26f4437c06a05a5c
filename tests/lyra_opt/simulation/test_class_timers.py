"""Timers by demand class, and their files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.network.heuristics.delay_scheduling import FixedTimers
from lyra_opt.simulation.class_timers import ClassTimers, manual, read_timers
from tests.conftest import assert_refused

if TYPE_CHECKING:
    from pathlib import Path

CLASS = "[[class]]\nlargest_gang = 8\nrack_leases = 1\nnetwork_leases = 2\n"
HEAD = 'format = "lyra-opt/timers"\nversion = 1\n'


def test_a_list_of_tables_is_the_file(tmp_path: Path) -> None:
    """Tuning files and what they find have timers in place, for ever and fractions included."""
    path = tmp_path / "timers.toml"
    path.write_text(HEAD + CLASS.replace("= 1", "= inf").replace("= 2", "= 2.5"))
    tables = [{"largest_gang": 8, "rack_leases": math.inf, "network_leases": 2.5}]
    for timers in (path, tables):
        rule = manual(timers=timers)._timers
        assert isinstance(rule, FixedTimers)
        assert (rule._largest, rule._leases[0]) == ([8], (math.inf, 2.5))
    with pytest.raises(FieldError, match="timers.class\\[0\\].rack_leases is -1"):
        manual(timers=[tables[0] | {"rack_leases": -1}])
    with pytest.raises(FieldError, match="must be a file, or a list of tables"):
        manual(timers=3)  # type: ignore[arg-type]


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
