"""Files of one's own on another machine: which ones go there, and where they are found."""

import os

import pytest

from lyra_opt.core import own_files
from lyra_opt.core.own_files import copy_below, files_of, load_reference, stand_in, work_as_in


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Return a folder of another machine; a file `mine.py` of it is copied here."""
    monkeypatch.chdir(tmp_path)  # undone after the test
    monkeypatch.setattr(own_files, "_copies", [])
    copy = copy_below(tmp_path / "copies", tmp_path / "home/mine.py")
    copy.parent.mkdir(parents=True)
    copy.write_text("class Mine: pass\n")
    return tmp_path / "home"


def test_imports_beside_a_file_go_with_it(tmp_path):
    """Also those within functions and of packages; neither what is installed nor other files."""
    texts = {
        "mine.py": "import numpy, near\ndef later():\n    from package.inner import thing\n",
        "near.py": "import json\n",
        "package/__init__.py": "",
        "package/inner.py": "from package import other\nthing = 1\n",
        "package/other.py": "",
        "package/apart.py": "",
        "far.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = {str(path.relative_to(tmp_path)) for path in files_of(f"{tmp_path}/mine.py:Mine")}
    assert found == set(texts) - {"package/apart.py", "far.py"}


def test_copies_stand_in_for_files(tmp_path, home):
    """Where there is one; by relative paths as by absolute ones."""
    assert stand_in(home / "mine.py") == home / "mine.py"
    work_as_in(str(home), tmp_path / "copies")
    copy = copy_below(tmp_path / "copies", home / "mine.py")
    assert stand_in(home / "mine.py") == copy
    assert stand_in("mine.py").read_text() == copy.read_text()
    assert stand_in(home / "other.py") == home / "other.py"
    assert load_reference(f"{home}/mine.py:Mine").__name__ == "Mine"
    assert load_reference("mine.py:Mine").__name__ == "Mine"


@pytest.mark.parametrize("is_absolute", [False, True])
def test_paths_may_lead_up(is_absolute, tmp_path, home):
    """As those of a study that names files beside its folder, which itself does not travel."""
    work_as_in(str(home), tmp_path / "copies")
    path = f"{home}/studies/../mine.py" if is_absolute else "studies/../mine.py"
    assert stand_in(path).read_text() == "class Mine: pass\n"
    assert load_reference(f"{path}:Mine").__name__ == "Mine"


@pytest.mark.usefixtures("home")
def test_the_folder_is_there_without_copies(tmp_path):
    """A run may write what it likes where it works, which is not somebody's home."""
    work_as_in("/home/somebody", tmp_path / "none")
    assert os.getcwd() == str(tmp_path / "none/home/somebody")  # noqa: PTH109 - as text
