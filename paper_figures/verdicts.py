"""The rule of verdicts: how a published number and ours compare, in words that are its code."""

from __future__ import annotations

import math
from enum import StrEnum

REPRODUCED_WITHIN = 0.10
"""How far ours may be from the paper's number, relative to that, and still be reproduced."""

NEAR_WITHIN = 0.25
"""How far it may be and still be near."""

NO_CHANGE_WITHIN = 0.01
"""Gains that close to 1 are none."""

FAR_BEYOND = 2.0
"""How many times apart two gains of the same direction are said to be far."""

WIDEST_SPREAD = 2.0
"""How many times apart the least and the greatest over seeds may be where they reproduce."""


class Verdict(StrEnum):
    """How ours compares with the paper's number."""

    REPRODUCED = "reproduced"
    NEAR = "near"
    SAME_DIRECTION = "same direction"
    FAR = "same direction, over 2 times off"
    DIFFERS = "differs"
    UNATTAINABLE = "unattainable as read"
    NOT_MODELLED = "not modelled"
    NOT_RUN = "not run"


RULE = (
    "Verdicts follow a fixed rule, the same for all papers, and the head of a table counts them. "
    "Value and gain are judged apart: a number by its value, and where its table compares it with "
    "another row a second time by its gain over that row (that row's value over this one's where "
    "less is better, this one's over that row's where more is better). What the paper itself gives "
    "as a gain or a reduction is judged as a gain alone: less by p % is 100 / (100 - p) times "
    "better.",
    f"{Verdict.REPRODUCED}: within {100 * REPRODUCED_WITHIN:g} % of the paper's number, or the "
    "paper's lies between our least and greatest over seeds, where these are at most "
    f"{WIDEST_SPREAD:g} times apart. Worked examples, and choices among a few, must round to the "
    "digits that the paper prints, and differ if not.",
    f"{Verdict.NEAR}: within {100 * NEAR_WITHIN:g} %.",
    f"Gains have a direction: above 1, below 1, or none within {100 * NO_CHANGE_WITHIN:g} % of 1. "
    "Gains of other directions differ however close they are, spread or not; of gains "
    f"of the same direction that are not near, those more than {FAR_BEYOND:g} times apart are "
    f'"{Verdict.FAR}", the others "{Verdict.SAME_DIRECTION}".',
    f"{Verdict.DIFFERS}: all else. Of values that is whatever is not near.",
    f"{Verdict.UNATTAINABLE}: not reproduced, and a bound that is computed with the runs proves "
    "that no scheduler reaches the paper's number, to its printed digits, on what is simulated.",
    f"{Verdict.NOT_MODELLED}: what decides the number is not in the simulation. The file of the "
    "paper says for which numbers and why; ours is shown, and not judged.",
)
"""The rule, a paragraph each; its numbers are those of the code."""

RULE_OF_0_1_0 = (
    "the gain where there is one, else the value; gains of another direction differ, within 10 % "
    "is reproduced"
)
"""`verdict_of_0_1_0` in words."""

Spread = tuple[float, float] | None
"""The least and the greatest over seeds, None of a single one."""


def gain(reference: float, value: float, *, more_is_better: bool = False) -> float:
    """Return how many times better a value is than a reference; 1 where both are 0."""
    better, worse = (value, reference) if more_is_better else (reference, value)
    if worse:
        return better / worse
    return math.inf if better else 1.0


def verdict_of_digits(paper: str, ours: float | None) -> Verdict:
    """Return how ours compares with a number to its printed digits; see `RULE`."""
    if ours is None:
        return Verdict.NOT_RUN
    return Verdict.REPRODUCED if f"{ours:.{digits_of(paper)}f}" == paper else Verdict.DIFFERS


def verdict_of_values(paper: float, ours: float | None, spread: Spread = None) -> Verdict:
    """Return how two values compare; see `RULE`."""
    if ours is None:
        return Verdict.NOT_RUN
    return _closeness(paper, ours, spread) or Verdict.DIFFERS


def verdict_of_gains(paper: float, ours: float | None, spread: Spread = None) -> Verdict:
    """Return how two gains compare; see `RULE`."""
    if ours is None:
        return Verdict.NOT_RUN
    if direction(paper) != direction(ours):
        return Verdict.DIFFERS
    close = _closeness(paper, ours, spread)
    if close is not None:
        return close
    return Verdict.FAR if _times_apart(paper, ours) > FAR_BEYOND else Verdict.SAME_DIRECTION


def verdict_of_0_1_0(paper: float, ours: float | None, gains: tuple[float, float] | None) -> str:
    """Return how version 0.1.0 judged a number: value or gain, not both.

    Parameters
    ----------
    gains
        The paper's and ours, where the number is compared with another row.
    """
    if ours is None:
        return Verdict.NOT_RUN
    if gains is not None and direction(gains[0]) != direction(gains[1]):
        return Verdict.DIFFERS
    if _is_within(REPRODUCED_WITHIN, *(gains or (paper, ours))):
        return Verdict.REPRODUCED
    return Verdict.DIFFERS if gains is None else Verdict.SAME_DIRECTION


def is_forbidden(paper: str, bound: float, *, is_most: bool) -> bool:
    """Whether all numbers that print as the paper's lie beyond a bound.

    Parameters
    ----------
    is_most
        Whether nothing is above the bound; otherwise nothing is below it.
    """
    half_a_digit = 0.5 * 10.0 ** -digits_of(paper)
    return bound < float(paper) - half_a_digit if is_most else bound > float(paper) + half_a_digit


def digits_of(paper: str) -> int:
    """Return how many digits a number as printed has behind its point."""
    return len(paper.partition(".")[2])


def direction(found: float) -> int:
    """Return 1 of a gain, -1 of a loss, 0 of neither."""
    if abs(found - 1) <= NO_CHANGE_WITHIN:
        return 0
    return 1 if found > 1 else -1


def _closeness(paper: float, ours: float, spread: Spread) -> Verdict | None:
    if _is_within(REPRODUCED_WITHIN, paper, ours) or _is_in_spread(paper, spread):
        return Verdict.REPRODUCED
    return Verdict.NEAR if _is_within(NEAR_WITHIN, paper, ours) else None


def _is_within(share: float, paper: float, ours: float) -> bool:
    # Gains are infinite where a value is 0; the difference of two infinities is not asked for.
    return paper == ours or abs(ours - paper) <= share * abs(paper) < math.inf


def _is_in_spread(paper: float, spread: Spread) -> bool:
    if spread is None:
        return False
    least, greatest = spread
    return least <= paper <= greatest and _times_apart(least, greatest) <= WIDEST_SPREAD


def _times_apart(one: float, other: float) -> float:
    """Return how many times the larger of two numbers is the smaller."""
    if one == other:
        return 1.0
    least, greatest = sorted((abs(one), abs(other)))
    return greatest / least if least > 0 and one * other > 0 else math.inf
