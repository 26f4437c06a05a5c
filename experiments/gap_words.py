"""What a report calls the distance from the optimum: an excess, a shortfall, or a gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class GapWords:
    """The words for one sense of the objective.

    Parameters
    ----------
    noun
        The distance: "the `noun`".
    preposition
        What joins it to the optimum: "the `noun` `preposition` the optimum".
    where
        Where a solution lies that is not optimal: "2 % `where` the optimum".
    amiss
        How it misses the optimum: "one `amiss`".
    """

    noun: str
    preposition: str
    where: str
    amiss: str

    @property
    def title(self) -> str:
        """The noun, with a capital."""
        return self.noun.capitalize()


EXCESS = GapWords("excess", "over", "above", "too much")
SHORTFALL = GapWords("shortfall", "from", "below", "too little")
GAP = GapWords("gap", "to", "away from", "too much or too little")


def gap_words(frame: pd.DataFrame) -> GapWords:
    """Return the words that are right for all runs of an `Analysis.frame`, or some of them.

    An excess where no sense is known: a run whose worker died does not say what its objective
    was, and has no gap either.
    """
    senses = set(frame.minimises[frame.variant.notna()])
    if len(senses) > 1:
        return GAP
    return SHORTFALL if senses == {False} else EXCESS
