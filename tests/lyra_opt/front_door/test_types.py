"""Types of the front door, as the type checker of a user sees them."""

import re
import sys

import pytest
from mypy import api

from tests.tables import tables


@pytest.mark.slow
def test_a_user_s_script_passes_mypy(write, tmp_path):
    """Strictly, and what is wrong in it is found where it stands: types are no mere Any."""
    cases, script = tables(__file__), tmp_path / "script.py"
    expected = list(enumerate((kind for _, kind in cases["wrong"]), cases["right"].count("\n") + 1))
    script.write_text(cases["right"] + "\n".join(line for line, _ in cases["wrong"]) + "\n")
    settings = write("[mypy]\nstrict = True\nshow_column_numbers = False\n", "mypy.ini")
    found, complaints, _ = api.run(
        [
            *("--config-file", str(settings), "--cache-dir", str(tmp_path)),
            *("--python-executable", sys.executable, str(script)),
        ]
    )
    assert complaints == ""
    errors = re.findall(r"script\.py:(\d+): error: .*\[([\w-]+)\]", found)
    assert [(int(number), code) for number, code in errors] == expected, found
