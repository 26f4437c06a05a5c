"""Files of every kind, damaged: each is read, or refused in one line that names it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.draws import draws
from tests.fuzz.damage import damaged, outcome, readers
from tests.reference.drawing import Draw


@pytest.mark.parametrize("kind", readers())
def test_damaged_files_are_read_or_refused_in_a_line(kind, tmp_path):
    """Whatever is damaged: bytes, values of every type, keys, lines, archives."""
    suffix, read = readers()[kind]
    found = []

    @draws(240)
    @given(st.integers(0, 2**64))
    def assert_said(seed):
        draw = Draw(seed)
        zipped = ".gz" if draw.sometimes(0.03) else ""  # which says nothing of the bytes
        path = tmp_path / f"{seed}{suffix}{zipped}"
        path.write_bytes(damaged(draw, kind))
        found.append(outcome(read, path))
        path.unlink()
        assert found[-1] in ("read", "refused")

    assert_said()
    assert "refused" in found
