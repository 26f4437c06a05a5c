"""What is installed is one package that works far from the source tree."""

import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import built
from tests.tables import tables

ROOT = Path(__file__).parent.parent
TABLES = tables(__file__)
MADE_IN_IT = TABLES["made_in_it"]
COMMANDS = TABLES["commands"]
"""What a command of an installed wheel writes or prints."""


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return the Python of an environment with the wheel, its dependencies and no source tree."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--disable-pip-version-check", wheel], check=True)
    # A folder that a .pth file adds is searched, but its own .pth files, one of which leads to the
    # source tree, are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def test_a_wheel_has_one_package(wheel):
    """Five generic names at the top of site-packages would clash with a user's own."""
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"lyra_opt"}
    assert len(names) == len(set(names))


def test_the_source_archive_makes_the_same_wheel(wheel, tmp_path):
    """It holds no links, and each file once."""
    archive = built(ROOT, tmp_path / "sdist", "sdist")
    with tarfile.open(archive) as opened:
        assert len(opened.getnames()) == len(set(opened.getnames()))
        opened.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    again = built(source, tmp_path / "wheel", "wheel")
    names = [sorted(zipfile.ZipFile(path).namelist()) for path in (wheel, again)]
    assert names[0] == names[1]


def output_of(command, folder):
    """Return what a command prints, run in an empty folder."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_an_installed_wheel_has_every_package(installed, tmp_path):
    """Under its own name alone: a second copy of a module has classes of its own."""
    assert output_of([installed, "-c", MADE_IN_IT], tmp_path) == "True\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_an_installed_wheel_runs(command, installed, tmp_path):
    """Papers, studies, simulations, bounds and the library find their parts and their files."""
    printed = output_of([installed.with_name("lyra-opt"), *shlex.split(command)], tmp_path)
    made = COMMANDS[command]
    assert made in printed or (tmp_path / made).is_file()


@pytest.mark.slow
def test_an_installed_wheel_runs_the_gallery(installed, tmp_path):
    """A script as a reader downloads it."""
    script = shutil.copy(ROOT / "docs/gallery/plot_08_four_papers_one_trace.py", tmp_path)
    output_of([installed, "-W", "ignore", script], tmp_path)
