"""Write a plan as one HTML page that an operator can pass on."""

from collections.abc import Sequence
from pathlib import Path

from lyra_opt.commands.output import require_file_path
from lyra_opt.core.errors import UserError
from lyra_opt.experiments.page import render_page
from lyra_opt.experiments.planning import words
from lyra_opt.experiments.planning.picture import plan_picture
from lyra_opt.experiments.planning.planning import ClusterPlan
from lyra_opt.experiments.planning.steps import steps_of


def require_page_path(option: str, path: str) -> None:
    """Raise `UserError` if `path`, the value of `option`, cannot be written as an HTML page."""
    if not path.lower().endswith(".html"):
        raise UserError(f"{option} {path}: must be named *.html")
    require_file_path(option, path)


def plan_page(plan: ClusterPlan, explanations: Sequence[str], files: Sequence[str]) -> str:
    """Return the page of a plan: the answer, a picture, the commands, who is hurt, and the proof.

    Parameters
    ----------
    plan
        The plan.
    explanations
        Sentences on single nodes.
    files
        The names of the files of the snapshot.
    """
    from lyra_opt.core.pictures import svg_text

    heading, *reasons = words.heading(plan)
    steps, hurt = steps_of(plan), words.hurt_table(plan)
    return render_page(
        "plan.html.jinja",
        folder=Path(__file__).parent,
        headline=heading,
        sentences=(*reasons, *words.verdict(plan), *explanations),
        svg=svg_text(plan_picture(plan), "plan") if plan.exists else "",
        columns=[column.title for column in hurt.columns],
        rows=hurt.rows(),
        steps=(("Commands", steps.do), ("To undo them", steps.undo)),
        limits=words.limits(plan),
        files=files,
        version=plan.case.snapshot.version,
    )
