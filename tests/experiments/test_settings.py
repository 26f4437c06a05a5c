"""Where tasks run: what is asked for, and what a file above the working folder says."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.settings import engine_of, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ADDRESS = "tcp://head.cluster:8786"


def test_the_nearest_file_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the working folder or one above; without any, nothing is set."""
    below = tmp_path / "study" / "inner"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert read_settings().scheduler is None
    (tmp_path / "lyra-opt.toml").write_text(f'scheduler = "{ADDRESS}"\n')
    assert read_settings().scheduler == ADDRESS
    (tmp_path / "study" / "lyra-opt.toml").write_text("# nothing\n")
    assert read_settings().scheduler is None


def test_processes_mean_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the file says; a file that nobody asks is not read."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lyra-opt.toml").write_text("no TOML")
    assert engine_of(None, 3) == LocalProcesses(3)
    with pytest.raises(InputError, match=r"^lyra-opt.toml: is not valid TOML"):
        engine_of(None, None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('shedule = "tcp://a:1"', "shedule is .*: unknown key; did you mean scheduler?"),
        ("scheduler = 8786", "scheduler is 8786: must be"),
        ('scheduler = "a:8786"', 'scheduler is "a:8786": must be tcp://HOST:PORT'),
        ('scheduler = "tcp://a"', 'scheduler is "tcp://a": must be tcp://HOST:PORT'),
    ],
)
def test_errors_name_file_key_and_rule(
    text: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lyra-opt.toml").write_text(text)
    with pytest.raises(InputError, match=f"^lyra-opt.toml: {error}"):
        engine_of(None, None)


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has not installed it is told what to install."""
    monkeypatch.delitem(sys.modules, "lyra_opt.experiments.machines.engine", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"pip install 'lyra-opt\[cluster\]'"):
        engine_of(ADDRESS, None)


def test_dask_is_loaded_for_nothing_else(write_study: Callable[..., Path], tmp_path: Path) -> None:
    """It takes a second, and has threads; a study at home needs neither."""
    program = f"""
import sys
from lyra_opt.__main__ import main
assert main(["study", {str(write_study())!r}, "--processes", "1", "--out", "out"]) == 0
assert not {{"dask", "distributed", "cloudpickle"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
