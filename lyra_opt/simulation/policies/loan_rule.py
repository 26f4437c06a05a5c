"""Which jobs go to servers on loan: by how long they still run, for loans are called back."""

from __future__ import annotations

from dataclasses import dataclass

from lyra_opt.core.errors import FieldError
from lyra_opt.core.validation import require_number

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoanRule:
    """Jobs that are done before long are put on loan, others wait for own servers.

    A job that is stopped when servers are called back loses what it did there. The shorter it runs,
    the less likely that is, and the less it loses. Every job fits the own servers when nothing else
    runs, so that nobody waits for a loan, and who may not be put on loan starts nevertheless.

    Parameters
    ----------
    longest_h
        Hours that a job has left at most, on its base demand, to be put on loan; above 0.
    first_h
        Hours that it has left at most to be put there though own servers have room; at least 0, at
        most `longest_h`.

    Notes
    -----
    Source: this project.
    """

    longest_h: float = 12.0
    first_h: float = 1.0

    def __post_init__(self) -> None:
        longest_h = require_number("longest_h", self.longest_h, minimum=0, above=True)
        if require_number("first_h", self.first_h, minimum=0) > longest_h:
            raise FieldError("first_h", self.first_h, f"must be at most longest_h, {longest_h:g}")

    def admits(self, left_s: float) -> bool:
        """Whether a job that has so many seconds left may be put on loan."""
        return left_s <= self.longest_h * HOUR_S

    def prefers(self, left_s: float) -> bool:
        """Whether it is put on loan though own servers have room for it."""
        return left_s <= self.first_h * HOUR_S
