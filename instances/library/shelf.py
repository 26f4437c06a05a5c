"""The library in its folder: find instances by id, compare them with the catalogue, verify them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import JsonObject, read_json_object, require_format
from lyra_opt.core.errors import UserError, in_file
from lyra_opt.core.fields import parsed
from lyra_opt.core.loading import LoadedInstance, content_hash, load_instance, load_solution
from lyra_opt.core.nearest_names import meant, nearest
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import RELATIVE_TOLERANCE, Number, same_value
from lyra_opt.core.texts import show_value_of
from lyra_opt.core.verifying import verify
from lyra_opt.instances.family import find_family
from lyra_opt.instances.library.documents import (
    CATALOGUE_FORMAT,
    CATALOGUE_VERSION,
    RECORD_FORMAT,
    RECORD_VERSION,
    BestKnown,
    Catalogue,
    Entry,
    FromFamily,
    Proof,
    Record,
)
from lyra_opt.proofs.files import checked_proof


class Library:
    """An instance library in a folder, whose catalogues and records are read on first use.

    Parameters
    ----------
    folder
        A folder with the structure that `lyra_opt.instances.library` describes.
    edition
        The edition, such as ``library-2026.1``; the library then has no instance of a later one.
        None for the newest edition.
    """

    def __init__(self, folder: Path, edition: str | None = None) -> None:
        self.folder = folder
        self._edition = edition

    @cached_property
    def catalogues(self) -> tuple[Catalogue, ...]:
        """The catalogues of the edition and of all earlier editions, ordered by year and number.

        Raises
        ------
        UserError
            If the edition is unknown.
        """
        files = sorted((self.folder / "catalogues").glob("*.json"), key=_year_and_number)
        names = [path.stem for path in files]
        if self._edition is not None:
            if self._edition not in names:
                known = " or ".join(names)
                raise UserError(f"edition {self._edition!r}: must be {known}")
            files = files[: names.index(self._edition) + 1]
        return tuple(_read(path, Catalogue, CATALOGUE_FORMAT, CATALOGUE_VERSION) for path in files)

    @property
    def edition(self) -> str:
        """The name of the edition."""
        return self.catalogues[-1].name

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """All records, ordered by date."""
        files = sorted((self.folder / "records").glob("*.json"))
        found = (_read(path, Record, RECORD_FORMAT, RECORD_VERSION) for path in files)
        return tuple(sorted(found, key=lambda record: record.date))

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """All catalogue entries by instance id, with the first edition first."""
        return {entry.id: entry for each in self.catalogues for entry in each.instances}

    @cached_property
    def known(self) -> Mapping[str, BestKnown]:
        """The best known result of each instance by id, from its latest record."""
        return {best.id: best for record in self.records for best in record.instances}

    def recorded_on(self, name: str) -> str | None:
        """Return the date of the record with the best known results; None without a record."""
        dates = [each.date for each in self.records for best in each.instances if best.id == name]
        return dates[-1] if dates else None

    def edition_of(self, entry: Entry) -> str:
        """Return the name of the edition that added an instance."""
        return next(each.name for each in self.catalogues if entry in each.instances)

    def entry(self, name: str) -> Entry:
        """Return the catalogue entry of an instance; `UserError` if the id is unknown."""
        if name not in self.entries:
            near = nearest(name, self.entries) is not None
            hint = meant(name, self.entries) if near else "lyra-opt library list shows all"
            raise UserError(f"instance {name!r}: unknown instance of the library; {hint}")
        return self.entries[name]

    def of_problem(self, problem: str | None) -> list[Entry]:
        """Return the instances of a problem, or all instances for None."""
        return [each for each in self.entries.values() if problem in (None, each.problem)]

    def load(self, name: str) -> LoadedInstance:
        """Return an instance, read from its file or generated on demand.

        Raises
        ------
        UserError
            If the id is unknown, or the content does not have the hash of the catalogue.
        """
        entry = self.entry(name)
        if entry.file is not None:
            loaded = load_instance(self.folder / entry.file)
        else:
            assert isinstance(entry.provenance, FromFamily), (
                "only instances of families have no file"
            )
            loaded = LoadedInstance(name, find_problem(entry.problem), _generated(entry))
        found = content_hash(loaded.problem, loaded.instance)
        if found != entry.sha256:
            made = "" if entry.file is None else f" in {self.folder / entry.file}"
            raise UserError(
                f"{name}{made}: its content has the SHA-256 {found[:12]}..., but "
                f"{self.edition_of(entry)} has {entry.sha256[:12]}..."
            )
        return loaded

    def document(self, name: str) -> JsonObject:
        """Return the JSON document of an instance, whose hash is in the catalogue."""
        loaded = self.load(name)
        return loaded.problem.instance_document(loaded.instance)

    def solution_file(self, name: str) -> Path:
        """Return the file of the best known solution of an instance."""
        plain = self.folder / "solutions" / f"{self.entry(name).id}.solution.json"
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    def solution(self, name: str) -> tuple[Any, Mapping[str, Any]]:
        """Return the best known solution of an instance, and the values that its file claims."""
        return load_solution(self.solution_file(name), find_problem(self.entry(name).problem))

    def proof_file(self, name: str) -> Path | None:
        """Return the file of the certificate of optimality; None without a certificate."""
        best = self.known.get(self.entry(name).id)
        if best is None or best.proof_file is None:
            return None
        return self.folder / "proofs" / best.proof_file


def _year_and_number(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path.stem)]


def _read(path: Path, of: type[Any], format_name: str, version: int) -> Any:
    document = read_json_object(path)
    with in_file(str(path)):
        require_format(document, format_name, version)
        return parsed(of, document)


def _generated(entry: Entry) -> Any:
    made = entry.provenance
    assert isinstance(made, FromFamily), "checked by the caller"
    family = find_family(entry.problem, made.family)
    if family.version != made.version:
        raise UserError(
            f"{entry.id}: requires version {made.version} of family {made.family}; the installed "
            f"version is {family.version}"
        )
    return family.generate(made.parameters, made.seed)


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of verifying an instance: the facts that hold, and the faults."""

    id: str
    holds: tuple[str, ...]
    faults: tuple[str, ...]

    def in_words(self) -> str:
        """Return the result as one line."""
        if self.faults:
            return f"{self.id}: WRONG: {'; '.join(self.faults)}"
        return f"{self.id}: {'; '.join(self.holds)}"


def verified(library: Library, name: str) -> Verified:
    """Verify the content, the best known solution and the certificate of an instance.

    Raises
    ------
    UserError
        If the id is unknown; everything else that is wrong is a fault of the result.
    """
    library.entry(name)
    holds: list[str] = []
    faults: list[str] = []
    try:
        loaded = library.load(name)
        holds.append("its content matches the catalogue")
        best = library.known.get(name)
        if best is None:
            faults.append("no record has its best known solution")
        else:
            for is_right, said in _checks(library, loaded, best):
                (holds if is_right else faults).append(said)
    except UserError as error:
        faults.append(str(error))
    return Verified(name, tuple(holds), tuple(faults))


def _checks(
    library: Library, loaded: LoadedInstance, best: BestKnown
) -> Iterator[tuple[bool, str]]:
    """Check what the library states on an instance; yield (is right, message) for each claim."""
    if best.best_known is not None:
        yield from _solution_checks(library, loaded, best, best.best_known)
    bound = best.best_bound
    if best.proof is Proof.CERTIFICATE:
        yield _certificate(library, loaded, best)
    elif best.proof is Proof.NONE:
        yield True, "open" if bound is None else f"open, bound {show_value_of(bound)}"
    else:
        yield True, f"{best.status} by {best.proof}: {', '.join(best.proved_with)}"


def _solution_checks(
    library: Library, loaded: LoadedInstance, best: BestKnown, best_known: Number
) -> Iterator[tuple[bool, str]]:
    solution, claims = library.solution(best.id)
    verification = verify(loaded.problem, loaded.instance, solution, claims)
    yield from ((False, violation) for violation in verification.violations)
    value, shown = verification.objective, show_value_of(best_known)
    if value is None or not same_value(value, best_known):
        yield False, f"its best known objective is {shown}, but its solution has {value}"
    else:
        yield True, f"its solution has objective {shown}"
    bound, variant = best.best_bound, loaded.instance.variant
    if bound is not None and variant.is_better(best_known, bound):
        is_close = same_value(best_known, bound, tolerance=variant.proof_gap)
        if not is_close:
            yield (
                False,
                f"its best known objective {shown} is beyond its bound {show_value_of(bound)}",
            )


def _certificate(library: Library, loaded: LoadedInstance, best: BestKnown) -> tuple[bool, str]:
    file = library.proof_file(best.id)
    if file is None:
        return False, "its certificate has no file"
    document = loaded.problem.instance_document(loaded.instance)
    proof = checked_proof(loaded, document, read_json_object(file), str(file))
    if not proof.holds:
        return False, f"its certificate does not hold: {proof.refutation}"
    if best.best_known is None:
        if proof.bound is None and proof.value is None:
            return True, "its certificate proves that no solution exists"
        return False, "its certificate does not prove that no solution exists"
    if not (proof.is_optimal or (proof.value is None and isinstance(proof.bound, Fraction))):
        return False, "its certificate does not prove an optimum"
    # A proof without a solution proves the optimum if the best known solution reaches its bound.
    shown = proof.bound if proof.value is None else proof.value
    assert shown is not None, "one of both is there"
    value = as_number(shown, loaded.instance)
    slack = proof.slack if proof.value is None else RELATIVE_TOLERANCE
    if not same_value(value, best.best_known, tolerance=slack):
        return False, f"its certificate proves {show_value_of(value)}"
    return True, "its certificate proves that no solution is better"


def as_number(value: Fraction | Mapping[str, int], instance: Any) -> Number:
    """Return a proved value as a number; the terms of a preemption objective have a code."""
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else float(value)
    code: int = instance.terms.encode([value.get(term.key, 0) for term in instance.terms.terms])
    return code
