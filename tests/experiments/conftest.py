"""Registers the misbehaving plugin, and makes study files."""

from pathlib import Path

import pytest

from lyra_opt.core.solver import SOLVERS
from lyra_opt.instances.family import FAMILIES
from tests.tables import beside

REPOSITORY = Path(__file__).parent.parent.parent

STUDY = beside(__file__, "tiny.toml")


@pytest.fixture
def write_study(tmp_path):
    """Return a function that writes the tiny study with some text replaced."""

    def write(*replacements):
        text = STUDY
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "tiny.toml"
        path.write_text(text)
        return path

    return write


def _forget_entry_points():
    SOLVERS.forget()
    FAMILIES.forget()


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """Register the misbehaving plugin, also for processes started meanwhile.

    It is found as any installed package is, by its metadata on the import path, so that the
    test needs no way into the program that others do not have.
    """
    site = tmp_path / "site"
    metadata = site / "misbehaving-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: misbehaving\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(beside(__file__, "entry_points.txt"))
    monkeypatch.syspath_prepend(site)
    monkeypatch.syspath_prepend(REPOSITORY)
    _forget_entry_points()
    yield site
    _forget_entry_points()
