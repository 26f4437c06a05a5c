"""The rule for verdicts on how closely simulated numbers match published numbers."""

import math
from enum import StrEnum
from importlib.resources import files

REPRODUCED_WITHIN = 0.10
"""The largest relative difference from the paper's number that counts as reproduced."""

NEAR_WITHIN = 0.25
"""The largest relative difference from the paper's number that counts as near."""

NO_CHANGE_WITHIN = 0.01
"""Gains this close to 1 count as no gain."""

FAR_BEYOND = 2.0
"""The ratio above which two gains of the same direction are called far apart."""

WIDEST_SPREAD = 2.0
"""The largest ratio of greatest to least over seeds for which the spread can reproduce a number."""


class Verdict(StrEnum):
    """The verdict on a simulated number compared with the paper's number."""

    REPRODUCED = "reproduced"
    NEAR = "near"
    SAME_DIRECTION = "same direction"
    FAR = "same direction, off by a factor above 2"
    DIFFERS = "differs"
    UNATTAINABLE = "unattainable as read"
    NOT_MODELLED = "not modelled"
    NOT_RUN = "not run"


RULE = tuple(
    line.format(
        within=100 * REPRODUCED_WITHIN,
        spread=WIDEST_SPREAD,
        near_within=100 * NEAR_WITHIN,
        no_change_within=100 * NO_CHANGE_WITHIN,
        beyond=FAR_BEYOND,
        **{each.name.lower(): each for each in Verdict},
    )
    for line in files("lyra_opt.paper_figures")
    .joinpath("verdict_rule.txt")
    .read_text("utf-8")
    .splitlines()
)
"""The rule, one paragraph per entry; its numbers are those above."""


Spread = tuple[float, float] | None
"""The least and the greatest value over seeds; None for a single seed."""


def gain(reference: float, value: float, *, more_is_better: bool = False) -> float:
    """Return how many times better a value is than a reference; 1 if both are 0."""
    better, worse = (value, reference) if more_is_better else (reference, value)
    if worse:
        return better / worse
    return math.inf if better else 1.0


def verdict_of_digits(paper: str, ours: float | None) -> Verdict:
    """Return the verdict on a number that must match the paper's printed digits, by `RULE`."""
    if ours is None:
        return Verdict.NOT_RUN
    return Verdict.REPRODUCED if f"{ours:.{digits_of(paper)}f}" == paper else Verdict.DIFFERS


def verdict_of_values(paper: float, ours: float | None, spread: Spread = None) -> Verdict:
    """Return the verdict on a value compared with the paper's value, by `RULE`."""
    if ours is None:
        return Verdict.NOT_RUN
    return _closeness(paper, ours, spread) or Verdict.DIFFERS


def verdict_of_gains(paper: float, ours: float | None, spread: Spread = None) -> Verdict:
    """Return the verdict on a gain compared with the paper's gain, by `RULE`."""
    if ours is None:
        return Verdict.NOT_RUN
    if direction(paper) != direction(ours):
        return Verdict.DIFFERS
    close = _closeness(paper, ours, spread)
    if close is not None:
        return close
    return Verdict.FAR if _times_apart(paper, ours) > FAR_BEYOND else Verdict.SAME_DIRECTION


def is_forbidden(paper: str, bound: float, *, is_most: bool) -> bool:
    """Return whether a proved bound excludes the paper's number, to its printed digits.

    Parameters
    ----------
    is_most
        Whether the bound is an upper bound; otherwise it is a lower bound.
    """
    half_a_digit = 0.5 * 10.0 ** -digits_of(paper)
    return bound < float(paper) - half_a_digit if is_most else bound > float(paper) + half_a_digit


def digits_of(paper: str) -> int:
    """Return the number of digits after the decimal point of a printed number."""
    return len(paper.partition(".")[2])


def direction(found: float) -> int:
    """Return 1 for a gain above 1, -1 for a gain below 1, and 0 for no change."""
    if abs(found - 1) <= NO_CHANGE_WITHIN:
        return 0
    return 1 if found > 1 else -1


def _closeness(paper: float, ours: float, spread: Spread) -> Verdict | None:
    if _is_within(REPRODUCED_WITHIN, paper, ours) or _is_in_spread(paper, spread):
        return Verdict.REPRODUCED
    return Verdict.NEAR if _is_within(NEAR_WITHIN, paper, ours) else None


def _is_within(share: float, paper: float, ours: float) -> bool:
    # Infinite gains are compared for equality first, because inf - inf is NaN.
    return paper == ours or abs(ours - paper) <= share * abs(paper) < math.inf


def _is_in_spread(paper: float, spread: Spread) -> bool:
    if spread is None:
        return False
    least, greatest = spread
    return least <= paper <= greatest and _times_apart(least, greatest) <= WIDEST_SPREAD


def _times_apart(one: float, other: float) -> float:
    """Return the ratio of the larger to the smaller of two numbers."""
    if one == other:
        return 1.0
    least, greatest = sorted((abs(one), abs(other)))
    return greatest / least if least > 0 and one * other > 0 else math.inf
