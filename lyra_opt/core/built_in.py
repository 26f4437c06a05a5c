"""The table of built-in components, such as solvers, which `lyra_opt.registry` fills."""

from collections.abc import Callable, Mapping
from typing import Any

BUILT_IN: dict[str, dict[str, tuple[Callable[[], Mapping[str, Any]], ...]]] = {}
"""Functions that return built-in components by name, by entry-point group and problem.

The names of components of a problem begin with the problem (``problem.name``); for all other
components the problem is the empty string. The functions of a problem are called in order until one
knows the name, so that a search for one solver does not import all solvers.
"""

REMOVED: dict[str, dict[str, str]] = {}
"""Messages for components that earlier versions had, by entry-point group and name."""
