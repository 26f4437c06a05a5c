"""The instance library: catalogues of instances, with the best that is known of each.

============================  ====================================================================
``ID.json``, ``ID.json.gz``   an instance that is small, or that no family makes
``catalogues/NAME.json``      a version of the library: its instances, frozen
``plans/NAME.toml``           what it was made from
``records/DATE.json``         what was known of the instances on a day
``solutions/``                the best solutions known, each with its ``objective``
``proofs/``                   certificates, which ``lyra-opt verify --proof`` takes
============================  ====================================================================

Instances without a file are made on demand by their family from their seed. Whatever is loaded is
held against the SHA-256 of the catalogue.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.instances.library.shelf import Library


@cache
def library() -> Library:
    """Return the library that comes along."""
    from pathlib import Path

    from lyra_opt.instances.library.shelf import Library

    return Library(Path(__file__).parent)


def load_library_instance(name: str) -> LoadedInstance:
    """Return an instance of the library; `UserError`, with the nearest, if there is none."""
    return library().load(name)
