"""What schedules may do that a bound holds for."""

from __future__ import annotations

from enum import Enum


class Reading(Enum):
    """What schedules may do that a bound holds for."""

    RESTART = "restart"
    """A rigid job without checkpoints that is stopped starts from nothing, so that its last run is
    one piece, on one pool; elastic jobs, those with checkpoints, and those that may be on own and
    borrowed GPUs at once are as in the other."""
    CONSERVED = "conserved"
    """Jobs may be stopped, resized and moved at any moment, and lose nothing."""
