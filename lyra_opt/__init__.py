"""The decision problems of GPU-cluster schedulers: data, checkers, bounds, heuristics.

Each decision problem is a sub-package with the same file names (``instance``, ``checker``,
``bounds``, one file a heuristic). Exact solvers live outside and are found by name:

>>> from lyra_opt.core.problem import find_problem
>>> find_problem("reclaim").default_solver_of("rigid")
'lyra-greedy'
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("lyra-opt")
except PackageNotFoundError:  # imported from a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
