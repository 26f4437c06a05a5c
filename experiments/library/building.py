"""The steps that make a version of the library, each of which goes on where it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import format_document, gzip_bytes, write_bytes, write_text
from lyra_opt.core.errors import UserError
from lyra_opt.core.fields import written
from lyra_opt.core.isolation.workers import Workers
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, Status, same_value
from lyra_opt.core.stopwatch import OutOfTimeError, limited_to
from lyra_opt.core.version import VERSION
from lyra_opt.experiments.library.grading import (
    GradingRuns,
    asked,
    best_known,
    credited,
    remembered,
)
from lyra_opt.experiments.library.plan import LARGEST_FILE_BYTES
from lyra_opt.experiments.records import current_environment
from lyra_opt.instances.library.documents import (
    RECORD_FORMAT,
    RECORD_VERSION,
    BestKnown,
    Grade,
    Proof,
    Record,
)
from lyra_opt.proofs.files import proof_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.core.result import Number
    from lyra_opt.experiments.library.grading import GradingRun
    from lyra_opt.experiments.library.plan import LibraryPlan
    from lyra_opt.instances.library.documents import Entry
    from lyra_opt.instances.library.shelf import Library

WHO = f"lyra-opt {VERSION}"
LARGEST_PROOF_BYTES = 60 * 2**10
"""Of compressed certificates that come along."""


def grade(
    plan: LibraryPlan,
    library: Library,
    entries: Iterable[Entry],
    runs: GradingRuns,
    *,
    only: Collection[str] | None = None,
    time_limit_s: float,
    starts: bool,
) -> Iterator[str]:
    """Ask the methods of a plan about instances; yield a line an instance, once it is done.

    Heuristics are asked once; exact methods again with a longer limit, until they prove an optimum.

    Parameters
    ----------
    only
        The methods that are asked, of those of the plan; None asks all.
    starts
        Whether methods begin with the best solution known. Such runs tell nothing of grades.
    """
    with Workers() as executor:
        for entry in entries:
            loaded = library.load(entry.id)
            methods = plan.methods_for(entry.problem, entry.variant)
            names = [*methods.heuristics, *methods.exact]
            for method in (name for name in names if only is None or name in only):
                is_exact = method in methods.exact
                before = [run for run in runs.of(entry.id, entry.sha256) if run.method == method]
                if before and not (is_exact and _would_do_more(before, time_limit_s)):
                    continue
                best = _best(library, loaded, runs) if starts else None
                for run, answer in asked(
                    loaded,
                    entry.sha256,
                    method,
                    is_exact=is_exact,
                    start=None if best is None else best[0],
                    time_limit_s=time_limit_s,
                    certify=method == methods.heuristics[0],
                    executor=executor,
                ):
                    runs.add([run])
                    runs.keep_if_best(loaded, answer)
            try:
                yield _in_words(known_of(plan, library, entry, runs))
            except UserError as error:  # the others are graded all the same
                yield f"NOT graded: {error}"


def _would_do_more(before: Sequence[GradingRun], time_limit_s: float) -> bool:
    """Return whether a method did not prove an optimum, in less time than it has now."""
    return not any(
        run.status == Status.OPTIMAL or run.time_limit_s >= time_limit_s for run in before
    )


def known_of(plan: LibraryPlan, library: Library, entry: Entry, runs: GradingRuns) -> BestKnown:
    """Return what earlier records, the runs on an instance, and its certificate, show."""
    certificate = _certificate_file(library, entry.id)
    before = library.known.get(entry.id)
    exact = plan.methods_for(entry.problem, entry.variant).exact
    earlier = [] if before is None else remembered(before, entry, exact)
    now = best_known(
        entry.id,
        [*earlier, *runs.of(entry.id, entry.sha256)],
        find_problem(entry.problem).variants(entry.variant),
        WHO,
        certificate.name if certificate.exists() else None,
    )
    return now if before is None else credited(now, before)


def _best(library: Library, loaded: LoadedInstance, runs: GradingRuns) -> tuple[Any, Number] | None:
    """Return the best solution of the runs and of the library, and its value."""
    found, name = runs.best(loaded), loaded.instance.name
    if name not in library.known:
        return found
    solution, claims = library.solution(name)
    value = claims["objective"]
    if found is not None and loaded.instance.variant.is_better(found[1], value):
        return found
    return solution, value


def grade_of(plan: LibraryPlan, library: Library, entry: Entry, runs: GradingRuns) -> Grade:
    """Return the grade of an instance; what nobody has solved yet is open."""
    try:
        return known_of(plan, library, entry, runs).grade
    except UserError:
        return Grade.OPEN


def _in_words(best: BestKnown) -> str:
    times = ", ".join(f"{run.method} {run.status} in {run.time_s:.2f} s" for run in best.runs)
    return f"{best.id}: {best.grade}, {best.best_known} [{best.best_bound}]; {times}"


def _certificate_file(library: Library, name: str) -> Path:
    """Return where the certificate of an instance is, if it has one."""
    return library.folder / "proofs" / f"{name}.proof.json.gz"


def _write_certificate(
    file: Path, loaded: LoadedInstance, solution: Any, time_limit_s: float
) -> tuple[bool, str]:
    """Write the certificate that a solution is an optimum; return whether there is one, and say."""
    name = loaded.instance.name
    document = loaded.problem.instance_document(loaded.instance)
    try:
        with limited_to(Limits(time_s=time_limit_s)):
            proof = proof_of(loaded.problem, loaded.instance, document, solution)
    except (UserError, OutOfTimeError) as error:
        return False, f"{name}: no certificate: {str(error) or 'out of time'}"
    data = gzip_bytes(format_document(proof).encode())
    is_small = len(data) <= LARGEST_PROOF_BYTES
    if is_small:
        write_bytes(file, data)
    kept = "" if is_small else ", too large to come along"
    said = f"{name}: certificate of {len(proof['nodes'])} nodes, {len(data)} bytes{kept}"
    return is_small, said


def certify(
    library: Library, entries: Iterable[Entry], date: str, *, time_limit_s: float
) -> Iterator[str]:
    """Search certificates of optima that the records have none of; yield a line for each.

    What is found is put into the record of the day, with what that has already; all else that is
    known of the instances stays as it is. No run is needed, and once all are found none is written.

    Raises
    ------
    UserError
        If there is a record of a later day, beside which this one would not count.
    """
    if any(record.date > date for record in library.records):
        raise UserError(
            f"{library.records[-1].date}: is the day of a record, and later than {date}"
        )
    found: dict[str, BestKnown] = {}
    for entry in entries:
        best = library.known.get(entry.id)
        if best is None or best.proof in (Proof.NONE, Proof.CERTIFICATE):
            continue
        loaded = library.load(entry.id)
        if loaded.problem.proof_hints(loaded.instance) is None:
            continue
        file = _certificate_file(library, entry.id)
        solution, _ = library.solution(entry.id)
        is_there, said = _write_certificate(file, loaded, solution, time_limit_s)
        yield said
        if is_there:
            found[entry.id] = replace(best, proof=Proof.CERTIFICATE, proof_file=file.name)
    if found:
        last = library.records[-1]  # the times are of its runs
        told = {"machine": last.machine, "versions": last.versions}
        yield str(_add_to_record(library, found, date=date, **told))


def write_record(
    plan: LibraryPlan, library: Library, entries: Iterable[Entry], runs: GradingRuns, date: str
) -> Path:
    """Write what runs show into the record of a day, and the best solutions; return its path."""
    known: dict[str, BestKnown] = {}
    for entry in entries:
        if not runs.of(entry.id, entry.sha256):
            continue
        known[entry.id] = known_of(plan, library, entry, runs)
        _keep_solution(library, library.load(entry.id), runs)
    environment = current_environment()
    versions = ", ".join(f"{name} {each}" for name, each in environment.versions.items() if each)
    machine = f"{environment.cpu}, one process"
    return _add_to_record(library, known, date=date, machine=machine, versions=versions)


def _add_to_record(
    library: Library, new: Mapping[str, BestKnown], *, date: str, machine: str, versions: str
) -> Path:
    """Put what is known into the record of a day, which keeps what it has of other instances."""
    days = [each for each in library.records if each.date == date]
    known = {**{best.id: best for day in days for best in day.instances}, **new}
    record = Record(
        format=RECORD_FORMAT,
        version=RECORD_VERSION,
        library=library.catalogues[-1].name,
        date=date,
        machine=machine,
        versions=versions,
        instances=tuple(known[name] for name in library.entries if name in known),
    )
    file = library.folder / "records" / f"best-known-{date}.json"
    write_text(file, format_document(written(record)))
    return file


def _keep_solution(library: Library, loaded: LoadedInstance, runs: GradingRuns) -> None:
    """Put the best solution of the runs into the library if it is better than the one there."""
    name, best = loaded.instance.name, runs.best(loaded)
    if best is None:
        return
    known = library.solution_file(name)
    if known.exists():
        value = library.solution(name)[1]["objective"]
        if same_value(best[1], value) or not loaded.instance.variant.is_better(best[1], value):
            return
        known.unlink()  # compressed it has another name
    source = runs.solution_file(name)
    target = library.folder / "solutions" / source.name
    if source.stat().st_size <= LARGEST_FILE_BYTES:
        write_bytes(target, source.read_bytes())
    else:
        write_bytes(target.with_name(f"{target.name}.gz"), gzip_bytes(source.read_bytes()))
