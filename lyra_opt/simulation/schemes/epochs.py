"""Schemes that decide in epochs."""

from __future__ import annotations

from lyra_opt.simulation.scheme import PolluxScheme

POLLUX = PolluxScheme(
    name="pollux",
    paper="Pollux",
    summary="every minute the allocation of greatest fitness, by the goodput of tuned jobs",
)
