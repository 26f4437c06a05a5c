"""Read instances from files and write instances and solutions to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, overload

from lyra_opt.core.documents import format_document, gzip_bytes, require_path, write_bytes
from lyra_opt.core.errors import FieldError, InputError, UserError, show_value
from lyra_opt.core.loading import load_instance
from lyra_opt.core.problem import ProblemInstance, problem_of_instance
from lyra_opt.core.solving import Answer

InstanceT = TypeVar("InstanceT", bound="ProblemInstance")


@overload
def load(path: str | Path) -> ProblemInstance: ...


@overload
def load(path: str | Path, of: type[InstanceT]) -> InstanceT: ...


def load(path: str | Path, of: type[Any] | None = None) -> Any:
    """Return the instance in a JSON file, which may be compressed.

    Parameters
    ----------
    path
        The file.
    of
        The expected class, such as ``lo.reclaim.Instance``; None for an instance of any problem.

    Raises
    ------
    InputError
        If the file is not valid (names file, field, value and rule), or has an instance of another
        problem.
    """
    if of is not None and not isinstance(of, type):
        raise FieldError("of", of, "must be a class of instances, such as lo.reclaim.Instance")
    loaded = load_instance(path)
    if of is not None and not isinstance(loaded.instance, of):
        expected = getattr(of, "problem", of.__name__)
        reason = f"holds an instance of {loaded.problem.name}, not of {expected}"
        raise InputError(str(path), reason)
    return loaded.instance


def save(what: ProblemInstance | Answer, path: str | Path) -> None:
    """Write an instance, or the solution of an answer, to a file, completely or not at all.

    Parameters
    ----------
    what
        An instance, which `load` reads, or an answer, whose solution ``lyra-opt verify`` reads.
    path
        The file; it is compressed if its name ends in ``.gz``.

    Raises
    ------
    UserError
        If the file cannot be written, or the answer has no solution.
    """
    require_path(path)
    if not isinstance(what, Answer | ProblemInstance):
        rule = f"must be an instance or an answer of `solve`, not {show_value(what)}"
        raise UserError(f"{path}: the object to save {rule}")
    if not isinstance(what, Answer):
        document = problem_of_instance(what).instance_document(what)
    elif what.objective is None:
        raise UserError(
            f"{path}: the answer of {what.solver} has no solution to save ({what.status})"
        )
    else:
        document = what.problem.solution_document(what.instance, what.solution, what.objective)
    data = format_document(document).encode()
    write_bytes(path, gzip_bytes(data) if Path(path).suffix == ".gz" else data)
