"""The table of built-in components, which `lyra_opt.registry` fills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BUILT_IN: dict[str, dict[str, tuple[Callable[[], Mapping[str, Any]], ...]]] = {}
"""Functions that return components by name, by group and problem.

A group has the name of the entry-point group for other packages. Where components belong to a
problem, their names begin with it (``problem.name``); otherwise the problem is the empty string.
The functions of one problem are called in order until one of them knows the name, so that a search
for one solver does not import all of them.
"""

REMOVED: dict[str, dict[str, str]] = {}
"""By group and name, what a message says of components that earlier versions had."""
