"""Grade the library's instances, certify optima and write records, in steps that can resume."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lyra_opt.core.documents import format_document, gzip_bytes, write_bytes, write_text
from lyra_opt.core.errors import UserError
from lyra_opt.core.fields import written
from lyra_opt.core.isolation.workers import Workers
from lyra_opt.core.loading import LoadedInstance
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits, same_value
from lyra_opt.core.stopwatch import OutOfTimeError, limited_to
from lyra_opt.core.version import VERSION
from lyra_opt.experiments.analysis import PROVED
from lyra_opt.experiments.library.grading import (
    GradingRun,
    GradingRuns,
    best_known,
    run_method,
    runs_of_record,
    with_earlier_credit,
)
from lyra_opt.experiments.library.plan import LARGEST_FILE_BYTES, LibraryPlan
from lyra_opt.experiments.records import current_environment
from lyra_opt.instances.library.documents import (
    RECORD_FORMAT,
    RECORD_VERSION,
    BestKnown,
    Entry,
    Proof,
    Record,
)
from lyra_opt.instances.library.shelf import Library
from lyra_opt.proofs.files import proof_in_words, proof_of

WHO = f"lyra-opt {VERSION}"
LARGEST_PROOF_BYTES = 192 * 2**10
"""Largest size of a compressed certificate that the library includes."""


def grade(
    plan: LibraryPlan,
    library: Library,
    entries: Iterable[Entry],
    runs: GradingRuns,
    *,
    time_limit_s: float,
) -> Iterator[str]:
    """Run the methods of a plan on instances, and yield a line for each finished instance.

    Heuristics run once. Exact methods run again with a longer limit until they prove an optimum.
    """
    with Workers() as executor:
        for entry in entries:
            loaded = library.load(entry.id)
            methods = plan.methods_for(entry.problem, entry.variant)
            for method in (*methods.heuristics, *methods.exact):
                is_exact = method in methods.exact
                before = [run for run in runs.of(entry.id, entry.sha256) if run.method == method]
                if before and not (is_exact and _could_prove_more(before, time_limit_s)):
                    continue
                for run in run_method(
                    loaded,
                    entry.sha256,
                    method,
                    is_exact=is_exact,
                    time_limit_s=time_limit_s,
                    certify=method == methods.heuristics[0],
                    executor=executor,
                ):
                    runs.add(run)
            try:
                yield _in_words(known_of(plan, library, entry, runs))
            except UserError as error:  # continue with the other instances
                yield f"NOT graded: {error}"


def _could_prove_more(before: Sequence[GradingRun], time_limit_s: float) -> bool:
    """Return whether a run with `time_limit_s` could prove more than a method's earlier runs."""
    return not any(run.status in PROVED or run.time_limit_s >= time_limit_s for run in before)


def known_of(plan: LibraryPlan, library: Library, entry: Entry, runs: GradingRuns) -> BestKnown:
    """Return the best known result of an instance from its records, runs and certificate."""
    certificate = _certificate_file(library, entry.id)
    before = library.known.get(entry.id)
    exact = plan.methods_for(entry.problem, entry.variant).exact
    earlier = [] if before is None else runs_of_record(before, entry, exact)
    now = best_known(
        entry.id,
        [*earlier, *runs.of(entry.id, entry.sha256)],
        find_problem(entry.problem).variants(entry.variant),
        WHO,
        certificate.name if certificate.exists() else None,
    )
    return now if before is None else with_earlier_credit(now, before)


def _in_words(best: BestKnown) -> str:
    times = ", ".join(f"{run.method} {run.status} in {run.time_s:.2f} s" for run in best.runs)
    return f"{best.id}: {best.grade}, {best.best_known} [{best.best_bound}]; {times}"


def _certificate_file(library: Library, name: str) -> Path:
    """Return the path at which the certificate of an instance is stored."""
    return library.folder / "proofs" / f"{name}.proof.json.gz"


def _write_certificate(
    file: Path, loaded: LoadedInstance, solution: Any, time_limit_s: float
) -> tuple[bool, str]:
    """Write a certificate of optimality if it is small enough; return success and a message."""
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
    kept = "" if is_small else ", too large for the library"
    said = f"{name}: {proof_in_words(proof)}, {len(data)} bytes{kept}"
    return is_small, said


def certify(
    library: Library, entries: Iterable[Entry], date: str, *, time_limit_s: float
) -> Iterator[str]:
    """Search for missing certificates of optimality, and yield a message on each search.

    New certificates are added to the record of the day, and everything else known about the
    instances is kept. The step needs no runs, and writes no record if no certificate is new.

    Raises
    ------
    UserError
        If a record of a later day exists, which would take precedence over the new record.
    """
    if any(record.date > date for record in library.records):
        raise UserError(
            f"--date {date}: must not be before the last record, {library.records[-1].date}"
        )
    found: dict[str, BestKnown] = {}
    for entry in entries:
        best = library.known.get(entry.id)
        if best is None or best.proof in (Proof.NONE, Proof.CERTIFICATE):
            continue
        loaded = library.load(entry.id)
        file = _certificate_file(library, entry.id)
        solution = None if best.best_known is None else library.solution(entry.id)[0]
        is_there, said = _write_certificate(file, loaded, solution, time_limit_s)
        yield said
        if is_there:
            found[entry.id] = replace(best, proof=Proof.CERTIFICATE, proof_file=file.name)
    if found:
        last = library.records[-1]  # its machine measured the times
        told = {"machine": last.machine, "versions": last.versions}
        yield str(_add_to_record(library, found, date=date, **told))


def write_record(
    plan: LibraryPlan, library: Library, entries: Iterable[Entry], runs: GradingRuns, date: str
) -> Path:
    """Write the results of instances with runs into the record for `date`; return its path."""
    known: dict[str, BestKnown] = {}
    for entry in entries:
        if not runs.of(entry.id, entry.sha256):
            continue
        known[entry.id] = known_of(plan, library, entry, runs)
        _keep_solution(library, entry, runs)
    environment = current_environment()
    versions = ", ".join(f"{name} {each}" for name, each in environment.versions.items() if each)
    machine = f"{environment.cpu}, one process"
    return _add_to_record(library, known, date=date, machine=machine, versions=versions)


def _add_to_record(
    library: Library, new: Mapping[str, BestKnown], *, date: str, machine: str, versions: str
) -> Path:
    """Add known results to the record of a day, and keep its other instances."""
    days = [each for each in library.records if each.date == date]
    known = {**{best.id: best for day in days for best in day.instances}, **new}
    record = Record(
        format=RECORD_FORMAT,
        version=RECORD_VERSION,
        library=library.edition,
        date=date,
        machine=machine,
        versions=versions,
        instances=tuple(known[name] for name in library.entries if name in known),
    )
    file = library.folder / "records" / f"best-known-{date}.json"
    write_text(file, format_document(written(record)))
    return file


def _keep_solution(library: Library, entry: Entry, runs: GradingRuns) -> None:
    """Store the best solution of the runs in the library if it improves on the stored one."""
    is_better = find_problem(entry.problem).variants(entry.variant).is_better
    known = library.solution_file(entry.id)
    value = library.solution(entry.id)[1]["objective"] if known.exists() else None
    best = None
    for run in runs.of(entry.id, entry.sha256):
        if run.objective is None or run.solution is None:
            continue
        if value is None or (
            is_better(run.objective, value) and not same_value(run.objective, value)
        ):
            best, value = run.solution, run.objective
    if best is None:
        return
    known.unlink(missing_ok=True)  # the new file may have another suffix
    data = format_document(best).encode()
    target = library.folder / "solutions" / f"{entry.id}.solution.json"
    if len(data) <= LARGEST_FILE_BYTES:
        write_bytes(target, data)
    else:
        write_bytes(target.with_name(f"{target.name}.gz"), gzip_bytes(data))
