"""Records of a user's own solutions, which extend the records of the library.

The user's folder has the sub-folders ``records`` and ``solutions`` of the library. The files of the
library itself never change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from lyra_opt.commands.output import make_folder
from lyra_opt.core.documents import format_document, parse_json, read_text, write_text
from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.fields import written
from lyra_opt.core.loading import LoadedInstance, load_solution, save_solution
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Number, same_value
from lyra_opt.core.texts import show_value_of
from lyra_opt.core.verifying import verify
from lyra_opt.core.version import VERSION
from lyra_opt.instances.library.documents import (
    RECORD_FORMAT,
    RECORD_VERSION,
    BestKnown,
    Grade,
    Proof,
    Record,
)
from lyra_opt.instances.library.shelf import Library

NOT_TIMED = "none: nothing was timed"


class LibraryWithOwn(Library):
    """The instance library, extended by the best known results of a user.

    Parameters
    ----------
    folder
        The folder of the library.
    own
        The folder of the user's records, which may be missing.
    """

    def __init__(self, folder: Path, own: Path) -> None:
        super().__init__(folder)
        self.own = Library(own)

    @cached_property
    def known(self) -> Mapping[str, BestKnown]:
        """The best known result of each instance by id; the user's result if it is better."""
        known = dict(super().known)
        return known | {
            best.id: best
            for best in self.own.known.values()
            if best.id in self.entries and self._is_better(best, known.get(best.id))
        }

    def _is_better(self, best: BestKnown, other: BestKnown | None) -> bool:
        return other is None or self.is_improved(best.id, best.best_known, other.best_known)

    def is_improved(self, name: str, objective: Number | None, best_known: Number | None) -> bool:
        """Return whether an objective is better than the best known one by more than rounding.

        None stands for no solution, which is worse than every solution.
        """
        if objective is None or best_known is None:
            return objective is not None and best_known is None
        entry = self.entry(name)
        variant = find_problem(entry.problem).variants(entry.variant)
        return variant.is_better(objective, best_known) and not same_value(objective, best_known)

    def is_own(self, name: str) -> bool:
        """Return whether the best known solution of an instance is the user's."""
        return self.known.get(name) is not None and self.known[name] is self.own.known.get(name)

    def solution_file(self, name: str) -> Path:
        """Return the file of the best known solution, which may be the user's."""
        if not self.is_own(name):
            return super().solution_file(name)
        return own_solution_file(self.own.folder, name)


def own_solution_file(folder: Path, name: str) -> Path:
    """Return the path of the user's solution of an instance."""
    return folder / "solutions" / f"{name}.solution.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A submitted solution, with the result of comparing it with the best known one.

    Parameters
    ----------
    file
        The file of the solution.
    loaded
        The instance.
    solution
        The solution in the file.
    objective
        The objective that the checker computes; None if the solution is not valid.
    violations
        The reasons why the solution is not valid.
    before
        The best known result before the submission.
    now
        The best known result with the submission; None if the submission is refused.
    """

    file: str
    loaded: LoadedInstance
    solution: Any
    objective: Number | None
    violations: tuple[str, ...]
    before: BestKnown | None
    now: BestKnown | None = None

    @property
    def denies_bound(self) -> bool:
        """Whether the objective is better than the best proved bound, which must then be wrong."""
        bound = None if self.before is None else self.before.best_bound
        return (
            bound is not None
            and self.objective is not None
            and _lies_beyond(self.loaded, self.objective, bound)
        )

    def in_words(self) -> str:
        """Return the result of the submission as one line."""
        name, before = self.loaded.instance.name, self.before
        if self.violations:
            return f"{name}: refused: not valid: {'; '.join(self.violations)}"
        value = show_value_of(self.objective)
        if before is None:
            return f"{name}: {value}, the first solution known"
        best = show_value_of(before.best_known)
        if self.now is None:
            by = f"found by {before.found_by} with {before.found_with}"
            return f"{name}: refused: {value} is not better than the best known, {best}, {by}"
        text = f"{name}: {value} is better than the best known so far, {best}"
        if self.denies_bound:
            bound = show_value_of(before.best_bound)
            text += (
                f"; it is better than the bound {bound} of {before.bound_by} with "
                f"{before.bound_with}, so that bound is wrong; please report it"
            )
        return text

    def as_json_object(self) -> dict[str, Any]:
        """Return the object that ``library submit --format json`` prints for the submission."""
        return {
            "file": self.file,
            "instance": self.loaded.instance.name,
            "accepted": self.now is not None,
            "valid": not self.violations,
            "violations": list(self.violations),
            "objective": self.objective,
            "best_known_before": None if self.before is None else self.before.best_known,
            "denies_bound": self.now is not None and self.denies_bound,
        }


def submitted(library: LibraryWithOwn, files: Iterable[str], by: str) -> list[Submission]:
    """Compare solution files in turn with the best known solutions, and return the results.

    Each solution is also compared with those in the files before it.

    Raises
    ------
    UserError
        If a file does not hold a solution, or its instance is not in the library.
    """
    known = dict(library.known)
    found: list[Submission] = []
    for file in files:
        one = _judged(library, file, known, by)
        if one.now is not None:
            known[one.now.id] = one.now
        found.append(one)
    return found


def write_submissions(
    library: LibraryWithOwn, submissions: Sequence[Submission], date: str | None = None
) -> list[Path]:
    """Write the accepted solutions, and records of the day, into the user's folder.

    Returns
    -------
    list of Path
        The record files, one per library version with accepted solutions.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    folder, day = library.own.folder, date or datetime.now(UTC).date().isoformat()
    accepted = {each.now.id: each for each in submissions if each.now is not None}
    by_version: dict[str, list[BestKnown]] = {}
    for name, each in accepted.items():
        file = own_solution_file(folder, name)
        make_folder(file.parent)
        assert each.objective is not None, "accepted solutions have an objective"
        assert each.now is not None, "accepted solutions are new results"
        save_solution(
            file, each.loaded.problem, each.loaded.instance, each.solution, each.objective
        )
        by_version.setdefault(library.version_of(library.entry(name)), []).append(each.now)
    return [_record(library, version, day, new) for version, new in by_version.items()]


def _record(library: LibraryWithOwn, version: str, day: str, new: Sequence[BestKnown]) -> Path:
    """Write the user's record of a day, with earlier results of the day; return its path."""
    earlier = [
        best
        for record in library.own.records
        if (record.library, record.date) == (version, day)
        for best in record.instances
    ]
    record = Record(
        format=RECORD_FORMAT,
        version=RECORD_VERSION,
        library=version,
        date=day,
        machine=NOT_TIMED,
        versions=f"lyra-opt {VERSION}",
        instances=tuple({best.id: best for best in [*earlier, *new]}.values()),
    )
    path = library.own.folder / "records" / f"best-known-{version}-{day}.json"
    make_folder(path.parent)
    write_text(path, format_document(written(record)))
    return path


def _judged(
    library: LibraryWithOwn, file: str, known: Mapping[str, BestKnown], by: str
) -> Submission:
    name = _instance_named_in(file)
    try:
        loaded = library.load(name)
    except UserError as error:
        raise InputError(file, str(error)) from None
    solution, claims = load_solution(file, loaded.problem)
    checked = verify(loaded.problem, loaded.instance, solution, claims)
    before = known.get(name)
    found = Submission(
        file=file,
        loaded=loaded,
        solution=solution,
        objective=checked.objective if checked.valid else None,
        violations=checked.violations,
        before=before,
    )
    if found.objective is None or (
        before is not None and not library.is_improved(name, found.objective, before.best_known)
    ):
        return found
    return replace(found, now=_known_with(found, found.objective, by))


def _instance_named_in(file: str) -> str:
    """Return the name of the instance in a solution file."""
    document = parse_json(read_text(file), file)
    if isinstance(document, list) and len(document) == 1:  # one run of `solve --format json`
        document = document[0]
    name = document.get("instance") if isinstance(document, dict) else None
    if not isinstance(name, str):
        raise InputError(file, "must be a solution file or one object of solve --format json")
    return name


def _known_with(submission: Submission, objective: Number, by: str) -> BestKnown:
    """Return the best known result of an instance after a better solution was submitted."""
    before = submission.before
    new = BestKnown(
        id=submission.loaded.instance.name,
        grade=Grade.OPEN,
        best_known=objective,
        found_by=by,
        found_with="a submitted solution",
        best_bound=None,
        bound_by=None,
        bound_with=None,
        proof=Proof.NONE,
        proved_with=(),
        proof_file=None,
        runs=(),
    )
    if before is None or before.best_bound is None or submission.denies_bound:
        return new
    new = replace(
        new,
        best_bound=before.best_bound,
        bound_by=before.bound_by,
        bound_with=before.bound_with,
        runs=before.runs,
    )
    if not _meets(submission.loaded, objective, before.best_bound):
        return new
    method = before.bound_with or "the earlier bound"
    return replace(new, grade=Grade.HARD, proof=Proof.ONE_METHOD, proved_with=(method,))


def _lies_beyond(loaded: LoadedInstance, objective: Number, bound: Number) -> bool:
    """Return whether an objective is better than a proved bound allows."""
    is_better = loaded.instance.variant.is_better(objective, bound)
    return is_better and not _meets(loaded, objective, bound)


def _meets(loaded: LoadedInstance, objective: Number, bound: Number) -> bool:
    return same_value(objective, bound, tolerance=loaded.instance.variant.proof_gap)
