"""The function ``lo.counterexample``, which finds a small instance on which a heuristic fails."""

from collections.abc import Mapping
from typing import Any

from lyra_opt.commands.counterexample import Searched, asked, names_of
from lyra_opt.core.errors import without_inner_frames
from lyra_opt.core.rules import Integer, Number
from lyra_opt.core.solver import SolverLike, find_solver


@without_inner_frames
def counterexample(
    heuristic: SolverLike,
    against: SolverLike = "optimum",
    *,
    problem: str | None = None,
    variant: str | None = None,
    limits: Mapping[str, int] | None = None,
    min_ratio: float = 1,
    seed: int = 0,
    time_limit_s: float | None = None,
    start: Any = None,
) -> Searched:
    """Find a small instance on which a heuristic is worse than another solver or the optimum.

    Parameters
    ----------
    heuristic, against
        Solvers as for `solve`; the word ``"optimum"`` compares with the optimum.
    problem, variant
        The problem, by default the only one that both solve, and the semantics or the objective, by
        default the first that both support.
    limits
        The largest values of counts in the instances, such as ``{"jobs": 3, "weight": 1}``.
    min_ratio
        The heuristic must have at least this many times the cost of the other solver, or at most
        the inverse share of its gain.
    seed, time_limit_s
        The seed of the search and of both solvers; the limit of the search in seconds, or None.
    start
        An instance on which the heuristic is worse, which the search makes smaller.

    Returns
    -------
    Searched
        ``print`` shows what is proved, as ``lyra-opt counterexample`` does. Its ``counterexample``
        has the ``instance``, the checked answers ``heuristic``, ``against`` and ``optimum``, and
        the ``ratio``; it is None if none was found.

    Raises
    ------
    UserError
        If a name is unknown, a limit is not valid, or the solvers cannot be compared.
    SolverFailedError
        If a solver fails or makes a false claim.

    Examples
    --------
    >>> found = counterexample("lyra-greedy", limits={"jobs": 2}, min_ratio=2).counterexample
    >>> found.heuristic.objective, found.optimum.objective
    (2, 1)
    """
    from lyra_opt.testing.counterexamples import find_counterexample

    seed = Integer().check("seed", seed)
    if time_limit_s is not None:
        time_limit_s = Number(above=True).check("time_limit_s", time_limit_s)
    chosen = (limits or {}).items()
    space, first, second = asked(heuristic, against, problem, variant, chosen, find_solver, start)
    search = find_counterexample(
        space, first, second, min_ratio=min_ratio, seed=seed, time_limit_s=time_limit_s, start=start
    )
    return Searched(search, space, names_of(first, second), min_ratio, seed)
