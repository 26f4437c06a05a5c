"""Exact and heuristic solvers for the decision problems of GPU-cluster schedulers.

Use it as ``import lyra_opt as lo``. The functions are the same for the five problems ``reclaim``,
``allocation``, ``heterogeneous``, ``network`` and ``preemption``; others simulate whole clusters.

>>> import lyra_opt as lo
>>> fleet = lo.generate("reclaim", "net", reclaim=6)
>>> lo.solve(fleet, "exact").objective
8

The names are defined in `lyra_opt.front_door.names`, imported when one of them is first used.
"""

# ruff: noqa: F405 - the names come from the front door

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt import registry as _registry  # noqa: F401  (lists the built-in components)

if TYPE_CHECKING:
    from lyra_opt.front_door.names import *  # noqa: F403 - the names in __all__
    from lyra_opt.front_door.names import __version__

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
    "cite",
    "compare",
    "counterexample",
    "diff",
    "export_model",
    "families",
    "generate",
    "heterogeneous",
    "library",
    "load",
    "load_solution",
    "load_study",
    "model",
    "network",
    "paper",
    "papers",
    "plan",
    "plot",
    "plot_progress",
    "plot_study",
    "preemption",
    "reclaim",
    "save",
    "scenarios",
    "schemes",
    "score",
    "simulate",
    "solve",
    "solvers",
    "studies",
    "summary",
    "tune",
    "verify",
]


def _exported(name: str) -> Any:
    """Return the object exported as `name`; the first use imports `lyra_opt.front_door.names`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import lyra_opt.front_door.names

    found = getattr(lyra_opt.front_door.names, name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # with it, a type checker would accept any name
    __getattr__ = _exported


def __dir__() -> list[str]:
    """Return the exported names, which interactive shells use for tab completion."""
    return __all__
