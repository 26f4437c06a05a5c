"""What is asked of an instance: its objective or what counts in it, and which way is better."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from lyra_opt.core.result import RELATIVE_TOLERANCE, Number

Sense = Literal["min", "max"]


class Variant(StrEnum):
    """A base of the variants of a problem, such as its objectives; see `Problem.variants`.

    A member is its name in files, then its sense and, where floats take part, its proof gap.
    """

    sense: Sense
    """Whether the objective is minimised or maximised."""
    proof_gap: float
    """The relative gap within which a bound in floats proves an objective."""

    def __new__(
        cls, name: str, sense: Sense = "min", proof_gap: float = RELATIVE_TOLERANCE
    ) -> Self:
        """Return the member called `name`."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.sense = sense
        member.proof_gap = proof_gap
        return member

    def is_better(self, value: Number, than: Number) -> bool:
        """Return whether one objective is better than another; so is one beyond a dual bound."""
        return value < than if self.sense == "min" else value > than
