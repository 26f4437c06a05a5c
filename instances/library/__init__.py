"""The instance library: frozen catalogues of instances, with their best known solutions.

An edition of the library has the instances of its own catalogue and of all earlier catalogues. A
catalogue lists only the instances that its edition adds, so that each instance is described once.

============================  ====================================================================
``ID.json``, ``ID.json.gz``   an instance that is small, or that no family generates
``catalogues/NAME.json``      the frozen list of the instances that an edition adds
``plans/NAME.toml``           the plan from which the catalogue was made
``records/DATE.json``         best solutions, bounds and grades as of a date
``solutions/``                the best known solutions, each with its ``objective``
``proofs/``                   certificates, which ``lyra-opt verify --proof`` checks
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


def library(edition: str | None = None) -> Library:
    """Return the instance library that this package includes, in its newest or a given edition."""
    return _library(edition)


@cache
def _library(edition: str | None) -> Library:
    from pathlib import Path

    from lyra_opt.instances.library.shelf import Library

    return Library(Path(__file__).parent, edition)


def load_library_instance(name: str) -> LoadedInstance:
    """Return an instance of the library; `UserError` names the most similar id if it is unknown."""
    return library().load(name)
