"""Who looks on while a simulation runs: series over time, progress, captured decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lyra_opt.simulation.view import View


class Observer:
    """Is told what happens, and changes nothing."""

    def begins(self, view: View) -> None:
        """Look at a simulation before its first event."""

    def passes(self, view: View, until_s: float) -> None:
        """Take note that all stays as it is from `View.now_s` to a later moment."""

    def captures(self, kind: str) -> bool:  # noqa: ARG002
        """Whether it wants decisions of a kind as instances, though a rule may do without."""
        return False

    def decided(self, kind: str, instance: Any) -> None:
        """Take note of a decision put to a solver, as an instance of the problem `kind`."""

    def ends(self, view: View) -> None:
        """Look at a simulation when its last job is complete."""
