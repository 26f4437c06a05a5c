"""The function ``lo.score``, which ranks one solver among the stored results of the others."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import as_loud_as
from lyra_opt.core.errors import FieldError, without_inner_frames
from lyra_opt.core.rules import Integer, Number
from lyra_opt.core.solver import Solver
from lyra_opt.experiments.executor import EXIT_INTERRUPTED
from lyra_opt.experiments.library_score import Selection, scored
from lyra_opt.front_door.simulating import given_engine, loudness_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd


@without_inner_frames
def score(
    solver: str | type[Solver],
    problem: str | None = None,
    *,
    grade: str | None = None,
    variant: str | None = None,
    ids: Sequence[str] = (),
    edition: str | None = None,
    time_limit_s: float | None = None,
    processes: int = 1,
    progress: bool | None = None,
) -> pd.DataFrame:
    """Run one solver on the library and rank it, as ``lyra-opt library score`` does.

    Parameters
    ----------
    solver
        A name, ``my_file.py:NAME``, or a class of solvers that a module defines.
    problem
        The problem, by default the one that the solver solves.
    grade, variant, ids
        Only instances of this grade (easy, hard or open), of this variant, and only these
        instances.
    edition
        The edition of the library, such as ``library-2026.1``; None for the newest.
    time_limit_s
        The time limit of each run in seconds; None for 0.5 s, as for the others.
    processes
        The number of runs at once.
    progress
        Whether to print the progress to stderr; None prints it in a terminal and in a notebook.

    Returns
    -------
    DataFrame
        The ranking: a row for each grade and solver, best first. ``frame.attrs`` has the
        ``results`` of the solver on each instance as dictionaries, a sentence on the ``times``, and
        as ``missing`` how many runs failed or are unsupported, and why, and on how many instances
        the other solvers have no results. These sentences are also printed to stderr.

    Raises
    ------
    UserError
        If the solver is unknown, or no instance is selected.
    KeyboardInterrupt
        After Ctrl-C or SIGTERM, because a ranking of some of the instances would look complete.
    """
    # pandas is imported at the first call, because it takes long.
    from lyra_opt.front_door.listed_frame import Comparison

    if time_limit_s is not None:
        time_limit_s = Number(above=True).check("time_limit_s", time_limit_s)
    chosen = [ids] if isinstance(ids, str) else ids
    selection = Selection(problem, grade, variant, chosen, edition)
    engine = given_engine(None, Integer(1).check("processes", processes))
    with as_loud_as(loudness_of(progress)):
        status, found = scored(_reference(solver), selection, time_limit_s, engine)
    if found is None or status == EXIT_INTERRUPTED:
        raise KeyboardInterrupt
    frame = Comparison(found.board.ranking(found.problem).reset_index(drop=True))
    own = found.board.results[found.board.results.solver == found.name]
    frame.attrs = {"results": own.to_dict("records"), "times": found.times}
    frame.attrs["missing"] = found.missing
    return frame


def _reference(solver: object) -> str:
    """Return a solver as a name or as ``my_file.py:NAME``, because child processes load it."""
    if isinstance(solver, str):
        return solver
    if isinstance(solver, type) and solver.__module__ != "__main__" and issubclass(solver, Solver):
        return f"{inspect.getsourcefile(solver)}:{solver.__name__}"
    rule = "must be a name, my_file.py:NAME, or a class of solvers from an imported file"
    raise FieldError("solver", str(solver), rule)
