"""What a problem's checker found."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.core.result import Number

MOST_VIOLATIONS = 20
"""Violations that are listed one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """A base of the reports of checkers; the fields of a subclass are its measures.

    Parameters
    ----------
    violations
        Every rule that the solution breaks, up to 20, one line each; empty for a valid one. The
        rest is None if not.
    objective
        The solution's value, recomputed.
    """

    violations: tuple[str, ...] = ()
    objective: Number | None = None

    @classmethod
    def invalid(cls, violations: Sequence[str]) -> Self:
        """Return the report of a solution that breaks rules."""
        shown = tuple(violations[:MOST_VIOLATIONS])
        if len(violations) > MOST_VIOLATIONS:
            shown += (f"{len(violations) - MOST_VIOLATIONS} more violations",)
        return cls(violations=shown)

    @classmethod
    def measure_keys(cls) -> tuple[str, ...]:
        """Return the names of what is computed beside the objective."""
        common = {each.name for each in fields(CheckReport)}
        return tuple(each.name for each in fields(cls) if each.name not in common)

    def measures(self) -> Mapping[str, Any]:
        """Return the measures beside the objective by key of ``solve --json``."""
        values = ((name, getattr(self, name)) for name in self.measure_keys())
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values}
