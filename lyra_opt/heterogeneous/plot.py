"""Pictures of gangs on unlike GPUs: who holds which GPUs when, shares of time, throughputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.instance import RoundSchedule, TimeShares
from lyra_opt.heterogeneous.matrix_plot import drawing_of_shares, drawing_of_throughputs
from lyra_opt.heterogeneous.round_plot import drawing_of_rounds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.core.pictures import Drawing
    from lyra_opt.heterogeneous.instance import Instance, Solution


def drawing_of(instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
    """Return a drawing of solutions, or of the instance alone if there are none.

    Parameters
    ----------
    instance
        What is, or was, to be decided.
    solutions
        Valid solutions by the name of who made them.
    """
    shares = {name: found for name, found in solutions.items() if isinstance(found, TimeShares)}
    if shares:
        return drawing_of_shares(instance, shares)
    rounds = {name: found for name, found in solutions.items() if isinstance(found, RoundSchedule)}
    if rounds:
        return drawing_of_rounds(instance, rounds)
    return drawing_of_throughputs(instance)
