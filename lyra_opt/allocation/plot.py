"""Pictures of allocation: workers of jobs where they are given once, else schedules over time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.allocation.instance import Schedule
from lyra_opt.allocation.schedule_plot import drawing_of_schedules
from lyra_opt.allocation.workers_plot import drawing_of_workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lyra_opt.allocation.instance import Instance, Solution
    from lyra_opt.core.pictures import Drawing


def drawing_of(instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
    """Return a drawing of solutions, or of the instance alone if there are none.

    Parameters
    ----------
    instance
        What is, or was, to be decided.
    solutions
        Valid solutions by the name of who made them.
    """
    schedules = {name: found for name, found in solutions.items() if isinstance(found, Schedule)}
    if schedules:
        return drawing_of_schedules(instance, schedules)
    workers = {name: found for name, found in solutions.items() if not isinstance(found, Schedule)}
    return drawing_of_workers(instance, workers)
