"""Where tasks run: what options and the environment say, and no file."""

import subprocess
import sys

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.settings import engine_of

ADDRESS = "tcp://head.cluster:8786"


def test_no_file_names_a_scheduler(tmp_path, monkeypatch):
    """A file in a parent folder may be a stranger's, whose scheduler nobody asked for."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lyra-opt.toml").write_text(f'scheduler = "{ADDRESS}"\n')
    assert isinstance(engine_of(None, None), LocalProcesses)


def test_the_variable_counts_without_options(monkeypatch):
    monkeypatch.setenv("LYRA_OPT_SCHEDULER", "a:8786")
    assert engine_of(None, 3) == LocalProcesses(3)
    with pytest.raises(UserError, match='LYRA_OPT_SCHEDULER is "a:8786": must be tls://HOST:PORT'):
        engine_of(None, None)


def test_dask_is_an_extra(monkeypatch):
    """Whoever has not installed it is told what to install."""
    monkeypatch.delitem(sys.modules, "lyra_opt.experiments.machines.engine", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match=r"pip install 'lyra-opt\[cluster\]'"):
        engine_of(ADDRESS, None)


def test_dask_is_loaded_for_nothing_else(write_study, tmp_path):
    """It takes a second, and has threads; a study at home needs neither."""
    program = f"""
import sys
from lyra_opt.__main__ import main
assert main(["study", {str(write_study())!r}, "--processes", "1", "--out", "out"]) == 0
assert not {{"dask", "distributed", "cloudpickle"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
