"""The command ``lyra-opt library``: list, show, copy, verify and improve library instances."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lyra_opt.core.numbers import Show
    from lyra_opt.core.table import Table
    from lyra_opt.instances.library.documents import Entry
    from lyra_opt.instances.library.shelf import Library

GRADES = ("easy", "hard", "open")
STATUSES = ("optimal", "infeasible", "open")

KNOWN = (
    *("grade", "status", "best_known", "best_bound", "proof", "proved_with"),
    *("found_by", "found_with", "bound_by", "bound_with"),
)
"""The fields of the best known results in ``list --format json``, in order."""

SHOWN = ("grade", "problem", "variant", "proof", "size", "best_known", "best_bound")
"""The columns of the data frame that ``lo.library`` returns."""


def require_variant(field: str, variant: str | None, entries: Iterable[Entry]) -> None:
    """Raise `FieldError` if a variant is given that none of the instances has."""
    known = list(dict.fromkeys(each.variant for each in entries))
    if variant is not None and variant not in known:
        raise FieldError(field, variant, unknown_key(variant, known, noun="variant"))


def _library(arguments: argparse.Namespace) -> Library:
    """Return the edition of ``--edition``, including the user's own records of ``--record``."""
    from lyra_opt.core.errors import UserError
    from lyra_opt.instances.library import library
    from lyra_opt.instances.library.own import LibraryWithOwn

    if arguments.record is None:
        return library(arguments.edition)
    folder = Path(arguments.record)
    if not folder.is_dir():
        raise UserError(f"--record {folder}: the folder does not exist")
    return LibraryWithOwn(library().folder, folder, arguments.edition)


def ids() -> Sequence[str]:
    """Return the ids of all instances of the library."""
    from lyra_opt.instances.library import library

    return list(library().entries)


def described(library: Library, entry: Entry) -> dict[str, Any]:
    """Return the JSON object that ``library list --format json`` prints for an instance."""
    from lyra_opt.core.fields import written

    best = library.known.get(entry.id)
    known = {name: getattr(best, name, None) for name in KNOWN}
    known |= {"grade": best and str(best.grade), "proof": best and str(best.proof)}
    known |= {"proved_with": list(best.proved_with) if best else []}
    return {
        "id": entry.id,
        "problem": entry.problem,
        "variant": entry.variant,
        "size": entry.size,
        **known,
        "features": entry.features,
        "provenance": {"kind": entry.provenance.kind, **written(entry.provenance)},
        "library": library.edition_of(entry),
        "recorded_on": library.recorded_on(entry.id),
        "page": entry.page,
        "file": entry.file,
        "sha256": entry.sha256,
    }


def listed(library: Library, **asked: str | None) -> list[dict[str, Any]]:
    """Return the objects of ``library list --format json`` that have the given values."""
    return [
        each
        for each in (described(library, entry) for entry in library.entries.values())
        if all(value in (None, each[key]) for key, value in asked.items())
    ]


def run_list(arguments: argparse.Namespace) -> int:
    """Run ``library list``, and return the exit code."""
    from lyra_opt.commands.output import print_formatted, print_line, print_table
    from lyra_opt.core.plugins import PROBLEMS

    if arguments.problem is not None:
        PROBLEMS.require_known("--problem", arguments.problem)
    asked = {key: getattr(arguments, key) for key in ("problem", "grade", "variant", "status")}
    shelf = _library(arguments)
    require_variant("--variant", arguments.variant, shelf.of_problem(arguments.problem))
    found = listed(shelf, **asked)
    table = _table(found, [key for key, value in asked.items() if value is not None])
    if print_formatted(arguments.form, [table], found):
        return 0
    if found:
        print_table(table)
    print_line(f"{len(found)} of {len(shelf.entries)} instances")
    return 0


LEAST = ("variant", "problem", "size", "proof", "grade")
"""The columns that ``list`` leaves out on a narrow terminal, least important first."""


def _table(found: Sequence[Mapping[str, Any]], filtered: Sequence[str]) -> Table:
    """Return the table of instances; columns with one value because of a filter matter least."""
    from lyra_opt.core.numbers import count, six_digits
    from lyra_opt.core.table import Column, Table, as_text

    def shown(key: str, show: Show, heading: str | None = None) -> Column:
        return Column(key=key, values=[each[key] for each in found], show=show, heading=heading)

    names = ("grade", "problem", "variant", "proof")
    return Table(
        [
            shown("id", as_text, "instance"),
            *(shown(name, as_text) for name in names),
            shown("size", count),
            shown("best_known", six_digits),
            shown("best_bound", six_digits, "bound"),
        ],
        least=tuple(dict.fromkeys((*filtered, *LEAST))),
    )


def run_show(arguments: argparse.Namespace) -> int:
    """Run ``library show``, and return the exit code."""
    from lyra_opt.commands.output import print_json, print_line
    from lyra_opt.core.fields import written
    from lyra_opt.core.texts import show_seconds, show_value_of, words

    shelf = _library(arguments)
    entry = shelf.entry(arguments.id)
    best = shelf.known.get(entry.id)
    runs = best.runs if best else ()
    shown = described(shelf, entry)
    if arguments.form == "json":
        print_json({**shown, "runs": [written(run) for run in runs]})
        return 0
    print_line(entry.id)
    shown |= {
        "provenance": entry.provenance.in_words(),
        "file": entry.file or "generated on demand",
    }
    for name, value in shown.items():
        if name != "id" and value not in (None, []):
            text = ", ".join(value) if isinstance(value, list) else show_value_of(value)
            print_line(f"  {words(name)}: {text}", indent="    ")
    for run in runs:
        said = f"{run.method}: {run.status} in {show_seconds(run.time_s)}"
        values = (("objective", run.objective), ("dual bound", run.dual_bound))
        said += "".join(
            f", {name} {show_value_of(each)}" for name, each in values if each is not None
        )
        print_line(f"  when graded, {said}", indent="    ")
    return 0


def run_get(arguments: argparse.Namespace) -> int:
    """Run ``library get``, and return the exit code."""
    from lyra_opt.commands.output import make_folder, require_folder_path
    from lyra_opt.core.documents import write_text
    from lyra_opt.core.errors import UserError

    if bool(arguments.ids) == arguments.all:
        raise UserError("get: give either ids or --all")
    require_folder_path("--out", Path(arguments.out))
    shelf = _library(arguments)
    names = list(shelf.entries) if arguments.all else list(dict.fromkeys(arguments.ids))
    for name in names:
        shelf.entry(name)  # refuses unknown ids before writing anything
    for name in names:
        for path, text in _files_of(shelf, name):
            target = Path(arguments.out) / path
            make_folder(target.parent)
            write_text(target, text)
            print(target)
    return 0


def _files_of(library: Library, name: str) -> Iterator[tuple[Path, str]]:
    """Yield path and text of each output file of an instance: data, best solution and proof."""
    from lyra_opt.core.documents import format_document, read_text

    yield Path(f"{name}.json"), format_document(library.document(name))
    if name in library.known and library.known[name].best_known is not None:
        solution = read_text(library.solution_file(name))
        yield Path("solutions", f"{name}.solution.json"), solution
    proof = library.proof_file(name)
    if proof is not None:
        yield Path("proofs", f"{name}.proof.json"), read_text(proof)


def run_verify(arguments: argparse.Namespace) -> int:
    """Run ``library verify``, and return the exit code."""
    from lyra_opt.commands.output import print_line
    from lyra_opt.instances.library.shelf import verified

    shelf = _library(arguments)
    names = list(dict.fromkeys(arguments.ids)) or list(shelf.entries)
    for name in names:
        shelf.entry(name)  # refuses unknown ids before checking anything
    wrong = 0
    for name in names:
        found = verified(shelf, name)
        wrong += bool(found.faults)
        print_line(found.in_words(), indent="  ")
    if len(names) > 1:
        print_line(f"{len(names) - wrong} of {len(names)} instances are right")
    return 1 if wrong else 0


def run_submit(arguments: argparse.Namespace) -> int:
    """Run ``library submit``, and return the exit code."""
    from lyra_opt.commands.output import print_json, print_line, require_folder_path
    from lyra_opt.instances.library import library
    from lyra_opt.instances.library.own import LibraryWithOwn, submitted, write_submissions

    folder = Path(arguments.record)
    require_folder_path("--record", folder)
    shelf = LibraryWithOwn(library().folder, folder)
    found = submitted(shelf, arguments.solutions, arguments.by)
    record = write_submissions(shelf, found)
    if arguments.form == "json":
        print_json([each.as_json_object() for each in found])
    else:
        for each in found:
            print_line(each.in_words(), indent="  ")
        if record is not None:
            print_line(f"{record}: your record; use it in other commands with --record {folder}")
    return 0 if all(each.now for each in found) else 1
