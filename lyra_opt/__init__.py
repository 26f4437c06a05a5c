"""Exact and heuristic answers to the decision problems of GPU-cluster schedulers.

The front door, for ``import lyra_opt as lo``: the same words for the four problems ``reclaim``,
``allocation``, ``heterogeneous`` and ``network``, and for the simulated cluster.

>>> import lyra_opt as lo
>>> fleet = lo.generate("reclaim", "net", reclaim=6)
>>> lo.solve(fleet, "exact").objective
8

`lyra_opt.front_door` holds the words. It is imported when the first of them is used.
"""

# ruff: noqa: F405 - the words come from the front door

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt import registry as _registry  # noqa: F401  (lists the built-in components)

if TYPE_CHECKING:
    from lyra_opt.front_door import *  # noqa: F403 - the words below
    from lyra_opt.front_door import __version__

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
    """Return a word of the front door."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import lyra_opt.front_door

    found = getattr(lyra_opt.front_door, name)
    globals()[name] = found
    return found


if not TYPE_CHECKING:  # a type checker would accept any word
    __getattr__ = _word


def __dir__() -> list[str]:
    """Return the words of the front door, for completion."""
    return __all__
