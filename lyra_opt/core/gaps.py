"""The gap between an objective and a reference, as used in answers, studies and pages."""

import math
from dataclasses import dataclass

from lyra_opt.core.numbers import share
from lyra_opt.core.problem import Sense, Variant
from lyra_opt.core.result import Number, same_value


def relative_gap(objective: Number, reference: Number, variant: Variant) -> float:
    """Return how much worse an objective is than a reference, relative to the reference.

    (objective - reference) / |reference| where the objective is minimised and
    (reference - objective) / |reference| where it is maximised. The reference is the best
    objective known, the optimum, or a dual bound; one that is better gives a positive gap.

    Returns
    -------
    float
        0 if the two are equal within the variant's proof gap; infinite if only the reference is 0.
    """
    if same_value(objective, reference, tolerance=variant.proof_gap):
        return 0.0
    worse = objective - reference if variant.sense == "min" else reference - objective
    return worse / abs(reference) if reference else math.copysign(math.inf, worse)


def finite(gap: float | None) -> float | None:
    """Return a gap, or None if it is infinite, because JSON has no infinite numbers."""
    return gap if gap is not None and math.isfinite(gap) else None


def percent_text(gap: float, rounding: str | None = None) -> str:
    """Return a gap as a percentage; a positive gap is never shown as 0 %.

    An upper bound on a gap is rounded with `lyra_opt.core.numbers.UP`.

    >>> [percent_text(gap) for gap in (0.0, 1e-7, 0.0667, 31)]
    ['0.0 %', '< 0.1 %', '6.7 %', '3,100.0 %']
    """
    return f"{share(gap, rounding)} %"


@dataclass(frozen=True, slots=True)
class GapWords:
    """The words for a gap to the optimum, for one sense of the objective.

    Parameters
    ----------
    noun
        The gap: "the `noun`".
    preposition
        The preposition before "the optimum": "the `noun` `preposition` the optimum".
    where
        The word between a percentage and "the optimum": "2 % `where` the optimum".
    amiss
        The words after the number by which the optimum is missed: "one `amiss`".
    """

    noun: str
    preposition: str
    where: str
    amiss: str

    @property
    def title(self) -> str:
        """The noun for the gap, such as "excess", with a capital letter."""
        return self.noun.capitalize()


EXCESS = GapWords("excess", "over", "over", "too much")
SHORTFALL = GapWords("shortfall", "from", "below", "too little")
GAP = GapWords("gap", "to", "away from", "too much or too little")


def gap_words(*senses: Sense) -> GapWords:
    """Return the words for gaps of objectives with the given senses (minimised or maximised).

    Without any sense, these are the words for minimising.
    """
    if len(set(senses)) > 1:
        return GAP
    return SHORTFALL if "max" in senses else EXCESS
