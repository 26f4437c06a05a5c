"""Instances worth a name, with the best solutions known.

``NAME.json`` is an instance, ``solutions/NAME.solution.json`` the best solution known of it,
whose ``objective`` was checked.

===============  ================================================================================
lyra-figure-5    Lyra (EuroSys 2023), Figure 5: six servers, four jobs, N_R = 2; optimum 1, proved
===============  ================================================================================
"""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from lyra_opt.loading import LoadedInstance


def library_instances() -> Mapping[str, Traversable]:
    """Return the instance files by name, in order of name."""
    return _files("", ".json")


def library_solutions() -> Mapping[str, Traversable]:
    """Return the files with the best solutions known, by name of the instance."""
    return _files("solutions", ".solution.json")


def load_library_instance(name: str) -> LoadedInstance:
    """Return the validated instance called `name`; KeyError if there is none."""
    from lyra_opt.loading import load_instance

    with as_file(library_instances()[name]) as path:
        return load_instance(path)


def _files(folder: str, suffix: str) -> dict[str, Traversable]:
    root = files(__name__)
    found = (root / folder if folder else root).iterdir()
    entries = {
        entry.name.removesuffix(suffix): entry for entry in found if entry.name.endswith(suffix)
    }
    return dict(sorted(entries.items()))
