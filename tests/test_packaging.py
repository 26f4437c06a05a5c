"""What is installed is one package that works far from the source tree."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import built

ROOT = Path(__file__).parent.parent
MADE_IN_IT = """\
import lyra_opt as lo
from lyra_opt.formulations.reclaim import cpsat_model
from lyra_opt.paper_figures.document import find_paper

assert "site" in lo.__file__ and "site" in cpsat_model.__file__
fleet = lo.generate("reclaim", "net", reclaim=6)
assert find_paper("lyra")
print(lo.solve(fleet, "cpsat").objective == lo.solve(fleet, "exact").objective)
"""


def test_a_wheel_has_one_package(wheel: Path) -> None:
    """Five generic names at the top of site-packages would clash with a user's own."""
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"lyra_opt"}
    assert len(names) == len(set(names))


def test_the_source_archive_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """It holds no links, and each file once."""
    archive = built(ROOT, tmp_path / "sdist", "sdist")
    with tarfile.open(archive) as opened:
        assert len(opened.getnames()) == len(set(opened.getnames()))
        opened.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    again = built(source, tmp_path / "wheel", "wheel")
    names = [sorted(zipfile.ZipFile(path).namelist()) for path in (wheel, again)]
    assert names[0] == names[1]


@pytest.mark.slow
def test_a_wheel_works_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    """With solvers, models, scenarios, studies, papers and the library that come along."""
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    elsewhere.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    environment = os.environ | {"PYTHONPATH": str(site)}

    def run(*words: str) -> str:
        command = [sys.executable, *words]
        done = subprocess.run(
            command, cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", MADE_IN_IT) == "True\n"
    figure_5 = site / "lyra_opt" / "instances" / "library" / "lyra-figure-5.json"
    run("-m", "lyra_opt", "solve", str(figure_5), "--solver", "pulp-highs")
    assert "lyra-paper" in run("-m", "lyra_opt", "scenarios", "list")
    assert "reclaim-gap" in run("-m", "lyra_opt", "study", "--help")
    assert "hadar" in run("-m", "lyra_opt", "paper", "--help")
    small = ("--set", "cluster.servers=10", "--set", "jobs.parameters.days=1")
    run("-m", "lyra_opt", "simulate", "lyra-paper", "--scheme", "fifo", *small, "--out", "runs")
    assert list((elsewhere / "runs").glob("*.html"))
