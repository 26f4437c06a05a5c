"""Read instances from files or the library, and write instances and solutions to files."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

from lyra_opt.core.documents import format_document, gzip_bytes, require_path, write_bytes
from lyra_opt.core.errors import FieldError, InputError, UserError, show_value, without_inner_frames
from lyra_opt.core.loading import LoadedInstance, load_instance
from lyra_opt.core.nearest_names import nearest
from lyra_opt.core.problem import ProblemInstance, problem_of_instance
from lyra_opt.core.solving import Answer
from lyra_opt.instances.library import library

InstanceT = TypeVar("InstanceT", bound="ProblemInstance")


@overload
def load(path: str | Path) -> ProblemInstance: ...


@overload
def load(path: str | Path, of: type[InstanceT]) -> InstanceT: ...


@without_inner_frames
def load(path: str | Path, of: type[Any] | None = None) -> Any:
    """Return the instance in a JSON file, which may be compressed, or an instance of the library.

    Parameters
    ----------
    path
        The file, or the id of an instance that `library` lists. A file of that name wins.
    of
        The expected class, such as ``lo.reclaim.Instance``; None for an instance of any problem.

    Raises
    ------
    InputError
        If the file is not valid (names file, field, value and rule), or has an instance of another
        problem. If no file and no instance has this name, the message names the nearest id.

    Examples
    --------
    >>> len(load("lyra-figure-5").servers)
    6
    """
    if of is not None and not isinstance(of, type):
        raise FieldError("of", of, "must be a class of instances, such as lo.reclaim.Instance")
    loaded = loaded_instance(path)
    if of is not None and not isinstance(loaded.instance, of):
        expected = getattr(of, "problem", of.__name__)
        reason = f"holds an instance of {loaded.problem.name}, not of {expected}"
        raise InputError(str(path), reason)
    return loaded.instance


def loaded_instance(path: str | Path) -> LoadedInstance:
    """Return the instance in a file or, if no file has this name, of the library, as `load`."""
    return _of_library(str(path)) if _is_id(path) else load_instance(path)


def _is_id(path: object) -> bool:
    """Return whether a text can be the id of a library instance, and no file has this name."""
    if not isinstance(path, str) or path in ("", "-") or Path(path).name != path:
        return False
    with suppress(OSError):  # the name is too long
        return not (path.endswith((".json", ".gz")) or Path(path).exists())
    return False


def _of_library(name: str) -> LoadedInstance:
    if name not in library().entries:
        near = nearest(name, library().entries)
        hint = "lyra-opt library list shows all ids" if near is None else f"did you mean {near}?"
        raise InputError(name, f"is neither a file nor an instance of the library; {hint}")
    return replace(library().load(name), file=name, document=None)


@without_inner_frames
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
