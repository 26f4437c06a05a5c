"""Records of a user's own solutions and certificates, which extend the records of the library.

The user's folder has the sub-folders ``records``, ``solutions`` and ``proofs`` of the library. The
files of the library itself never change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from lyra_opt.commands.output import make_folder
from lyra_opt.core.documents import JsonObject, format_document, parse_json, read_text, write_text
from lyra_opt.core.errors import InputError, UserError
from lyra_opt.core.fields import written
from lyra_opt.core.loading import LoadedInstance, load_solution, save_solution
from lyra_opt.core.problem import Variant, find_problem
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
from lyra_opt.instances.library.shelf import Library, as_number
from lyra_opt.proofs.files import checked_proof
from lyra_opt.proofs.stand_alone import PROOF_FORMAT

Kind = Literal["solution", "proof"]

NOT_TIMED = "none: nothing was timed"


class LibraryWithOwn(Library):
    """The instance library, extended by the best known results of a user.

    Parameters
    ----------
    folder
        The folder of the library.
    own
        The folder of the user's records, which may be missing.
    edition
        The edition of the library; None for the newest.
    """

    def __init__(self, folder: Path, own: Path, edition: str | None = None) -> None:
        super().__init__(folder, edition)
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
        if other is None or self.is_improved(best.id, best.best_known, other.best_known):
            return True
        if self.is_improved(best.id, other.best_known, best.best_known):
            return False
        return _is_tighter(self._variant(best.id), best.best_bound, other.best_bound) or (
            best.proof is Proof.CERTIFICATE is not other.proof
        )

    def is_improved(self, name: str, objective: Number | None, best_known: Number | None) -> bool:
        """Return whether an objective is better than the best known one by more than rounding.

        None stands for no solution, which is worse than every solution.
        """
        if objective is None or best_known is None:
            return objective is not None and best_known is None
        is_better = self._variant(name).is_better(objective, best_known)
        return is_better and not same_value(objective, best_known)

    def _variant(self, name: str) -> Variant:
        entry = self.entry(name)
        return find_problem(entry.problem).variants(entry.variant)

    def is_own(self, name: str) -> bool:
        """Return whether the best known solution of an instance is the user's."""
        return self.known.get(name) is not None and self.known[name] is self.own.known.get(name)

    def solution_file(self, name: str) -> Path:
        """Return the file of the best known solution, which may be the user's.

        The user's file may be an earlier and worse solution than the best known one.
        """
        file, best = own_file(self.own.folder, "solution", name), self.known.get(name)
        if best is None or not self.is_own(name) or not file.exists():
            return super().solution_file(name)
        value = load_solution(file, find_problem(self.entry(name).problem))[1]["objective"]
        return file if value == best.best_known else super().solution_file(name)

    def proof_file(self, name: str) -> Path | None:
        """Return the file of the certificate of optimality, which may be the user's."""
        file, best = own_file(self.own.folder, "proof", name), self.known.get(name)
        is_own = best is not None and best.proof_file == file.name and self.is_own(name)
        return file if is_own else super().proof_file(name)


def own_file(folder: Path, kind: Kind, name: str) -> Path:
    """Return the path of the user's solution or certificate of an instance."""
    return folder / f"{kind}s" / f"{name}.{kind}.json"


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

    kind: ClassVar[Kind] = "solution"
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

    def write(self, file: Path) -> None:
        """Write the accepted solution."""
        assert self.objective is not None, "accepted solutions have an objective"
        loaded = self.loaded
        save_solution(file, loaded.problem, loaded.instance, self.solution, self.objective)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedProof:
    """A submitted certificate, with the result of comparing its bound with the best known one.

    Parameters
    ----------
    file
        The file of the certificate.
    loaded
        The instance.
    proof
        The content of the file.
    bound
        The proved bound; None if no solution exists, or if the certificate proves nothing.
    before
        The best known result before the submission.
    refusal
        The reason why the certificate is refused; empty if it is accepted.
    now
        The best known result with the submission; None if the submission is refused.
    """

    kind: ClassVar[Kind] = "proof"
    file: str
    loaded: LoadedInstance
    proof: JsonObject
    bound: Number | None
    before: BestKnown | None
    refusal: str
    now: BestKnown | None = None

    def in_words(self) -> str:
        """Return the result of the submission as one line."""
        name, bound = self.loaded.instance.name, show_value_of(self.bound)
        if self.refusal:
            return f"{name}: refused: {self.refusal}"
        if self.bound is None:
            return f"{name}: a certificate that no solution exists"
        optimal = self.now is not None and self.now.proof is Proof.CERTIFICATE
        proves = ", which proves that the best known solution is optimal" if optimal else ""
        return f"{name}: a certificate of the bound {bound}{proves}"

    def write(self, file: Path) -> None:
        """Write the accepted certificate."""
        write_text(file, format_document(self.proof))

    def as_json_object(self) -> dict[str, Any]:
        """Return the object that ``library submit --format json`` prints for the certificate."""
        return {
            "file": self.file,
            "instance": self.loaded.instance.name,
            "accepted": self.now is not None,
            "refusal": self.refusal or None,
            "bound": self.bound,
            "best_bound_before": None if self.before is None else self.before.best_bound,
        }


def submitted(
    library: LibraryWithOwn, files: Iterable[str], by: str
) -> list[Submission | SubmittedProof]:
    """Compare files in turn with the best known solutions and bounds, and return the results.

    Each solution or certificate is also compared with those in the files before it.

    Raises
    ------
    UserError
        If a file holds neither a solution nor a certificate, or its instance is not in the library.
    """
    known = dict(library.known)
    found: list[Submission | SubmittedProof] = []
    for file in files:
        one = _judged(library, file, known, by)
        if one.now is not None:
            known[one.now.id] = one.now
        found.append(one)
    return found


def write_submissions(
    library: LibraryWithOwn,
    submissions: Sequence[Submission | SubmittedProof],
    date: str | None = None,
) -> Path | None:
    """Write what is accepted, and the record of the day, into the user's folder.

    Returns
    -------
    Path or None
        The record file; None if nothing is accepted.

    Raises
    ------
    UserError
        If a file cannot be written.
    """
    folder, day = library.own.folder, date or datetime.now(UTC).date().isoformat()
    new: list[BestKnown] = []
    for each in submissions:
        if each.now is None:
            continue
        new.append(each.now)
        file = own_file(folder, each.kind, each.now.id)
        make_folder(file.parent)
        each.write(file)
    return _record(library, day, new) if new else None


def _record(library: LibraryWithOwn, day: str, new: Sequence[BestKnown]) -> Path:
    """Write the user's record of a day, with earlier results of the day; return its path."""
    days = [record for record in library.own.records if record.date == day]
    earlier = [best for record in days for best in record.instances]
    record = Record(
        format=RECORD_FORMAT,
        version=RECORD_VERSION,
        library=library.edition,
        date=day,
        machine=NOT_TIMED,
        versions=f"lyra-opt {VERSION}",
        instances=tuple({best.id: best for best in [*earlier, *new]}.values()),
    )
    path = library.own.folder / "records" / f"best-known-{day}.json"
    make_folder(path.parent)
    write_text(path, format_document(written(record)))
    return path


def _judged(
    library: LibraryWithOwn, file: str, known: Mapping[str, BestKnown], by: str
) -> Submission | SubmittedProof:
    document, name = _instance_named_in(file)
    try:
        loaded = library.load(name)
    except UserError as error:
        raise InputError(file, str(error)) from None
    if document.get("format") == PROOF_FORMAT:
        return _judged_proof(loaded, document, file, known.get(name), by)
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


def _judged_proof(
    loaded: LoadedInstance, proof: JsonObject, file: str, before: BestKnown | None, by: str
) -> SubmittedProof:
    document = loaded.problem.instance_document(loaded.instance)
    checked = checked_proof(loaded, document, proof, file)
    bound = None if checked.bound is None else as_number(checked.bound, loaded.instance)
    best = None if before is None else before.best_known
    is_met = best is not None and bound is not None and _meets(loaded, best, bound)
    is_certified = before is not None and before.proof is Proof.CERTIFICATE
    is_contradicted = best is not None and (bound is None or _lies_beyond(loaded, best, bound))
    refusal = ""
    if not checked.holds:
        refusal = f"not proved: {checked.refutation}"
    elif before is None or (best is None and bound is not None):
        refusal = "no solution is known yet; submit one first"
    elif is_contradicted:
        value = show_value_of(best)
        refusal = f"a solution with {value} contradicts the certificate; please report it"
    elif is_certified or not (
        is_met or bound is None or _is_tighter(loaded.instance.variant, bound, before.best_bound)
    ):
        known = "a certificate" if is_certified else f"the bound {show_value_of(before.best_bound)}"
        refusal = f"it proves no more than {known} that is known"
    found = SubmittedProof(
        file=file, loaded=loaded, proof=proof, bound=bound, before=before, refusal=refusal
    )
    if refusal:
        return found
    assert before is not None, "without a record, the certificate is refused"
    now = before
    if bound is not None:
        how = "a submitted certificate"
        now = replace(before, best_bound=bound, bound_by=by, bound_with=how)
    if is_met or bound is None:
        grade = Grade.HARD if before.grade is Grade.OPEN else before.grade
        name = own_file(Path(), "proof", before.id).name
        now = replace(now, grade=grade, proof=Proof.CERTIFICATE, proof_file=name)
    return replace(found, now=now)


def _is_tighter(variant: Variant, bound: Number | None, other: Number | None) -> bool:
    """Return whether a bound leaves less room than another one, by more than rounding."""
    if bound is None or other is None:
        return bound is not None
    return variant.is_better(other, bound) and not same_value(other, bound)


def _instance_named_in(file: str) -> tuple[JsonObject, str]:
    """Return the object in a file of a solution or certificate, and the name of its instance."""
    document = parse_json(read_text(file), file)
    if isinstance(document, list) and len(document) == 1:  # one run of `solve --format json`
        document = document[0]
    if isinstance(document, dict) and isinstance(document.get("instance"), str):
        return document, document["instance"]
    kinds = "a solution file, a certificate or one object of solve --format json"
    raise InputError(file, f"must be {kinds}")


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
