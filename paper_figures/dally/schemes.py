"""The schemes that are compared, by what tables call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.simulation.scheme import scheme_names

if TYPE_CHECKING:
    from collections.abc import Iterable

DALLY = "dally"
CONSOLIDATED = "consolidated"
TIRESIAS = "tiresias-skew"
GANDIVA = "gandiva-affinity"
MANUAL = "manual"
NO_WAIT = "no-wait"
BEST_FIT = "best-fit"
SRTF = "srtf-network"
OURS = "priced-placement"

NAMES = {
    DALLY: "Dally",
    CONSOLIDATED: "consolidated",
    TIRESIAS: "Tiresias (skew)",
    GANDIVA: "Gandiva (affinity)",
    MANUAL: "Dally, fixed timers",
    NO_WAIT: "no wait",
    BEST_FIT: "best fit",
    SRTF: "SRTF, network-aware",
    OURS: "priced placement (ours)",
}

CONSOLIDATION = (CONSOLIDATED, TIRESIAS, GANDIVA)
"""The methods that the abstract's claims are about, as far as it says which: "prevailing
consolidation-based scheduling methods". Those that its author's simulator has, and consolidation
without a limit."""


SCHEMES = tuple(NAMES)


def notes_on_missing(schemes: Iterable[str]) -> list[str]:
    """Return a sentence on each scheme that is not there."""
    return [
        f"{NAMES[scheme]} was not run: there is no scheme {scheme} here."
        for scheme in schemes
        if scheme not in scheme_names()
    ]
