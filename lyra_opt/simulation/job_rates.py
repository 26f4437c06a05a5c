"""How fast a job can be at best: what `lyra_opt.simulation.least_run` finds of it."""

from __future__ import annotations

from typing import NamedTuple


class JobRates(NamedTuple):
    """The best rates of a job, in its unit of work a second.

    Parameters
    ----------
    best
        The highest of all.
    least_workers
        With how few it may run: its base demand, unless it is tuned for less.
    of_workers
        With these, with a worker more, and so on; 0 where nothing holds so many.
    of_copies
        Of one copy on a server of its own, of two, and so on; empty where it may have one alone.
    """

    best: float
    least_workers: int
    of_workers: tuple[float, ...]
    of_copies: tuple[float, ...]
