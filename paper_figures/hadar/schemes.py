"""The schemes that are compared, by what tables call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.simulation.scheme import scheme_names

if TYPE_CHECKING:
    from collections.abc import Iterable

HADAR = "hadar"
HADARE = "hadare"
GAVEL = "gavel-las"
"""Gavel's default; which of its policies Hadar was held against is not known."""
GAVEL_MAKESPAN = "gavel-makespan"
TIRESIAS = "tiresias"
YARN = "yarn-cs"
OURS = "priced-progress"

NAMES = {
    HADAR: "Hadar",
    HADARE: "HadarE",
    GAVEL: "Gavel (max-min)",
    GAVEL_MAKESPAN: "Gavel (makespan)",
    TIRESIAS: "Tiresias",
    YARN: "YARN-CS",
    OURS: "priced-progress (ours)",
}


def notes_on_missing(schemes: Iterable[str]) -> list[str]:
    """Return a sentence on each scheme that is not there."""
    return [
        f"{NAMES[scheme]} was not run: there is no scheme {scheme} here."
        for scheme in schemes
        if scheme not in scheme_names()
    ]
