"""Instances of families, for ``import lyra_opt as lo``."""

from __future__ import annotations

from typing import Any

from lyra_opt.instances import family as families


def generate(problem: str, family: str, *, seed: int = 0, **parameters: Any) -> Any:
    """Return an instance of a family; see `lyra_opt.instances.family.generate`."""
    return families.generate(problem, family, seed=seed, **parameters)
