"""Draw a plan: the pods on each node before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.core.errors import UserError
from lyra_opt.core.pictures import stacked
from lyra_opt.core.plotting import drawn_figure
from lyra_opt.experiments.planning import words
from lyra_opt.experiments.planning.questions import Fit
from lyra_opt.preemption.plot import drawing_of

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from lyra_opt.core.pictures import Drawing
    from lyra_opt.experiments.planning.planning import ClusterPlan

WIDTH_INCHES = 11.0
"""The width of a picture in the style of a page."""


def plan_picture(plan: ClusterPlan, style: str = "page", file: str | Path | None = None) -> Figure:
    """Return a picture of the nodes that change, and write it to `file` if a file is given.

    A drain that the plan assumes is drawn above the plan, which shows the cluster after the drain.

    Raises
    ------
    UserError
        If there is no plan, or the file cannot be written.
    """

    def figure() -> Figure:
        return stacked([_drawing(each) for each in (plan.before, plan) if each]).figure()

    return drawn_figure(figure, style, file)


def _drawing(plan: ClusterPlan) -> Drawing:
    solution = plan.answer.solution
    if solution is None:
        raise UserError(f"there is no plan to draw. {words.headline(plan)}")
    question = plan.case.question
    return drawing_of(
        plan.case.instance,
        {plan.answer.solver: solution},
        title=words.caption(plan),
        pending=question.gang.id if isinstance(question, Fit) else "",
        panel_inches=WIDTH_INCHES,
    )
