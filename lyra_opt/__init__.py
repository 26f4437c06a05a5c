"""Exact and heuristic answers to the decision problems of GPU-cluster schedulers.

The front door, for ``import lyra_opt as lo``: the same words for the four problems ``reclaim``,
``allocation``, ``heterogeneous`` and ``network``, and for the simulated cluster.

>>> import lyra_opt as lo
>>> fleet = lo.generate("reclaim", "net", reclaim=6)
>>> lo.solve(fleet, "exact").objective
8

Nothing is imported before it is used: each word is an entry point of the group
``lyra_opt.front_door``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lyra_opt import allocation, heterogeneous, network, reclaim
    from lyra_opt.core.errors import UserError
    from lyra_opt.core.result import SolveResult, Status
    from lyra_opt.core.solver import HeuristicSolver, Solver
    from lyra_opt.core.solving import Answer
    from lyra_opt.experiments.frames import load_study
    from lyra_opt.experiments.simulation.front_door import bound, simulate
    from lyra_opt.formulations.front_door import export_model, model
    from lyra_opt.front_door.files import load, save
    from lyra_opt.front_door.plotting import plot, plot_progress
    from lyra_opt.front_door.solving import compare, solve, verify
    from lyra_opt.instances.front_door import generate
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload

    __version__: str

PROBLEMS = ("allocation", "heterogeneous", "network", "reclaim")

__all__ = [
    "Answer",
    "Cluster",
    "HeuristicSolver",
    "SolveResult",
    "Solver",
    "Status",
    "UserError",
    "Workload",
    "__version__",
    "allocation",
    "bound",
    "compare",
    "export_model",
    "generate",
    "heterogeneous",
    "load",
    "load_study",
    "model",
    "network",
    "plot",
    "plot_progress",
    "reclaim",
    "save",
    "simulate",
    "solve",
    "verify",
]


def _word(name: str) -> Any:
    """Return a word of the front door, which is imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: Any
    match name:
        case "__version__":
            from lyra_opt.core.version import VERSION

            found = VERSION
        case "allocation":
            import lyra_opt.allocation as found
        case "heterogeneous":
            import lyra_opt.heterogeneous as found
        case "network":
            import lyra_opt.network as found
        case "reclaim":
            import lyra_opt.reclaim as found
        case _:
            from importlib.metadata import entry_points

            (point,) = entry_points(group="lyra_opt.front_door", name=name)
            found = point.load()
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # to which any word would be there
    __getattr__ = _word


def __dir__() -> list[str]:
    """Return the words of the front door, for completion."""
    return __all__
