"""The instance library: frozen catalogues of instances, with their best known solutions.

============================  ====================================================================
``ID.json``, ``ID.json.gz``   an instance that is small, or that no family generates
``catalogues/NAME.json``      the frozen list of instances of a library version
``plans/NAME.toml``           the plan from which the catalogue was made
``records/DATE.json``         best solutions, bounds and grades as of a date
``solutions/``                the best known solutions, each with its ``objective``
``proofs/``                   certificates, which ``lyra-opt verify --proof`` checks
``next/``                     the same folders and files for the next version, not yet released
============================  ====================================================================

Instances without a file are generated on demand from their family and seed. Every instance that is
loaded must have the SHA-256 hash of the catalogue.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.instances.library.shelf import Library


@cache
def library() -> Library:
    """Return the instance library that this package includes."""
    from pathlib import Path

    from lyra_opt.instances.library.shelf import Library

    return Library(Path(__file__).parent)


def load_library_instance(name: str) -> LoadedInstance:
    """Return an instance of the library; `UserError` names the most similar id if it is unknown."""
    return library().load(name)
