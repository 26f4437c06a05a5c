"""A wheel installs in an empty environment of every Python, with the oldest and newest versions."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OLDEST = ROOT / "constraints-oldest.txt"
PYTHONS = ("python3.11", "python3.12", "python3.13")
CASES = [
    pytest.param("python3.11", ["--constraint", str(OLDEST)], id="python3.11-oldest"),
    *(pytest.param(python, [], id=f"{python}-newest") for python in PYTHONS),
]


def interpreter(name):
    """Return a Python of that name which runs: on the path, or kept by pyenv beside others."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = versions.glob(f"{name.removeprefix('python')}.*/bin/{name}")
    for each in (name, *map(str, kept)):
        # What pyenv puts on the path is there too where its Python is switched off.
        asked = [each, "--version"]
        if (
            shutil.which(each)
            and subprocess.run(asked, capture_output=True, check=False).returncode == 0
        ):
            return each
    return None


def first_example():
    """Return the Python of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return found[1]


def test_the_oldest_versions_are_those_asked_for():
    """Each dependency by its lowest version, and none that is no dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = dict(
        found.groups()
        for each in project["dependencies"]
        if (found := re.match(r"([\w.-]+)[=>]=([\d.]+)", each))
    )
    pinned = dict(
        line.split("==") for line in OLDEST.read_text().splitlines() if not line.startswith("#")
    )
    assert pinned.keys() == asked.keys()
    for name, version in asked.items():
        assert (pinned[name] + ".").startswith(version + "."), name


def test_the_versions_of_python_are_those_that_are_tested():
    """With an upper bound: the pinned solvers have no wheels for a newer Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    minors = [int(python.removeprefix("python3.")) for python in PYTHONS]
    assert project["requires-python"] == f">=3.{minors[0]},<3.{minors[-1] + 1}"
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in minors} == {
        each for each in project["classifiers"] if " :: 3." in each
    }


@pytest.mark.slow
@pytest.mark.parametrize(("python", "versions"), CASES)
def test_an_empty_environment_runs_the_first_example(python, versions, wheel, tmp_path):
    """Protects who installs it: versions that are asked for, and data files that come along."""
    found = interpreter(python)
    if found is None:
        pytest.skip(f"{python} is not there")
    subprocess.run([found, "-m", "venv", tmp_path / "venv"], check=True)
    inside = tmp_path / "venv" / "bin" / "python"
    install = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *versions]
    subprocess.run([*install, wheel], check=True)
    example = first_example()
    done = subprocess.run(
        [inside, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = [line.removeprefix("# ") for line in example.splitlines() if line.startswith("# ")]
    assert done.stdout.splitlines() == shown
