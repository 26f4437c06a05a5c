"""What a task is as bytes."""

import site
from importlib import import_module

import pytest

from lyra_opt.experiments.machines.parcels import Contents

MARK = "a text of a function"
MODULE = f"""
class Task:
    key, files = "k", ()

    def run(self):
        return {MARK!r}
"""


@pytest.mark.parametrize("is_installed", [True, False])
def test_code_goes_only_where_it_may_not_be(is_installed, tmp_path, monkeypatch):
    """What pip has installed for a user alone is installed: much of it cannot be sent at all."""
    name = f"module_{is_installed}".lower()
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    if is_installed:
        monkeypatch.setattr(site, "USER_SITE", str(tmp_path))
    task = import_module(name).Task()
    parcel = Contents().parcel(task)
    assert (MARK.encode() in parcel.task) is not is_installed
