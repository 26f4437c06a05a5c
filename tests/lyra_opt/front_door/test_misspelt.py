"""A name that is spelt wrong is one line at the user's own call, with the nearest name."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import pytest

import lyra_opt as lo
from tests.conftest import FIGURE_5
from tests.tables import tables


@pytest.mark.parametrize(("word", "arguments", "options", "says"), tables(__file__)["misspelt"])
def test_a_misspelt_name(word, arguments, options, says, tmp_path, monkeypatch):
    """Neither a script nor IPython shows frames of the toolkit, or another exception."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/gap").mkdir(parents=True)
    (tmp_path / "results/gap/results.sqlite").touch()
    given = [lo.load(FIGURE_5) if each == "FLEET" else each for each in arguments]
    with pytest.raises(lo.UserError, match=re.escape(says)) as caught:
        getattr(lo, word)(*given, **options)
    error = caught.value
    assert "\n" not in str(error)
    own, wrapper = traceback.extract_tb(error.__traceback__)
    assert (own.filename, wrapper.name) == (__file__, "ending_here")
    assert (error.__cause__, error.__suppress_context__) == (None, True)
    assert error._render_traceback_() == [
        f"{Path(__file__).name}, line {own.lineno}: {own.line}",
        f"{type(error).__name__}: {error}",
    ]
