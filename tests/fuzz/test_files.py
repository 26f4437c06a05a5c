"""Files of every kind, damaged: each is read, or refused in one line that names it."""

from __future__ import annotations

import pytest

from tests.fuzz.damage import readers
from tests.fuzz.running import FILES, Tally, try_many

SEED = 1
SAMPLE = 60
"""Files of each kind in ``make test``."""
MANY = 3000
"""The same in ``make test-slow``, other ones."""


def assert_faultless(tally: Tally) -> None:
    """Assert that nothing was raised, and that the damage was neither always nor never harmless."""
    assert [(failure.kind, failure.text) for failure in tally.failures] == []
    for kind in readers():
        assert tally.counts[FILES, kind, "refused"] > 0, kind
    assert tally.total("read") > len(readers())


def test_damaged_files_are_read_or_refused_in_a_line():
    """Whatever is damaged: bytes, values of every type, keys, lines, archives."""
    assert_faultless(try_many(SEED, FILES, range(SAMPLE * len(readers()))))


@pytest.mark.slow
def test_many_damaged_files_are_read_or_refused_in_a_line():
    """The same for more."""
    numbers = range(SAMPLE * len(readers()), MANY * len(readers()))
    assert_faultless(try_many(SEED, FILES, numbers))
