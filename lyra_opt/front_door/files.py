"""Instances to and from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def load(path: str | Path) -> Any:
    """Return the instance that a file holds (JSON, plain or gzip), whatever its problem.

    Raises
    ------
    InputError
        Naming file, field, value and rule.
    """
    from lyra_opt.core.loading import load_instance

    return load_instance(path).instance


def save(instance: Any, path: str | Path) -> None:
    """Write an instance file, whole or not at all.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    from lyra_opt.core.documents import write_text
    from lyra_opt.core.loading import instance_text
    from lyra_opt.core.problem import problem_of_instance

    write_text(path, instance_text(problem_of_instance(instance), instance))
