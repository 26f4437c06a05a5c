"""Standard streams that are full, closed or broken cost messages, and no row."""

import subprocess
import sys

import pytest

from tests.fuzz.test_kills import STUDY, rows_of

SMALL = STUDY.replace('"slowly.py:Slowly"', '"lyra-greedy"').replace("seeds = 40", "seeds = 2")
COMMAND = 'exec "$0" -m lyra_opt study "$1" --processes 2 --verbose --out "$2" '


@pytest.mark.parametrize("streams", ["2>/dev/full", "2>&-", "2>&- <&-", "2> >(exit)"])
def test_a_study_stores_every_row(streams, tmp_path):
    """The exit code is that of the study, and only its tables go to stdout."""
    (tmp_path / "small.toml").write_text(SMALL)
    given = [sys.executable, str(tmp_path / "small.toml"), str(tmp_path / "out")]
    done = subprocess.run(["bash", "-c", COMMAND + streams, *given], stdout=-1, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"lyra-greedy, by family")
    assert len(rows_of(tmp_path / "out")) == 8
