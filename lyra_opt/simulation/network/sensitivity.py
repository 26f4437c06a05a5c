"""How much the network has hurt a job: Dally's order of who chooses first."""

from __future__ import annotations


def network_sensitivity(*, done_share: float, running_s: float, ideal_s: float) -> float:
    """Return Nw_sens, from 0 (never run, or badly slowed) to 1 (never slowed).

    The share of its work that a job has done, times its ideal running time over the time in which
    it has run, queuing left out. That is the harmonic mean of its efficiencies, weighted by the
    work done at each: the share w of it, at efficiency s, takes w ideal_s / s.

    Source: Dally (arXiv 2401.16492), from its public simulator; ``W tau* / tau``.

    Parameters
    ----------
    done_share
        0 to 1.
    running_s
        In which it held its GPUs and ran, at least 0; 0 where it has not.
    ideal_s
        How long all of it takes if the network costs nothing, above 0.

    Returns
    -------
    float
        0 for a job that has not run.
    """
    if running_s <= 0:
        return 0.0
    return min(1.0, done_share * ideal_s / running_s)
