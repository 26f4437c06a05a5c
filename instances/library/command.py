"""The command ``lyra-opt library``: list, show, copy, verify and improve library instances."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import (
    TEXT_FORMATS,
    add_command,
    add_format_option,
    completed_by,
    completed_by_problems,
    plain_text,
)
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

EXAMPLES = """\
examples:
  lyra-opt library list --problem reclaim --grade open
  lyra-opt library show lyra-figure-5
  lyra-opt library get lyra-figure-5 --out fleets && lyra-opt solve fleets/lyra-figure-5.json
  lyra-opt library verify lyra-figure-5
  lyra-opt library submit solution.json --by "A. Author"
"""

GET_DESCRIPTION = """\
Write instances (ID.json), their best known solutions (solutions/ID.solution.json) and certificates
(proofs/ID.proof.json), and print the paths. Instances without a file are generated from their seed.
The hash of every instance is compared with the catalogue."""

VERIFY_DESCRIPTION = """\
Verify the library: compare the hash of each instance, recompute the objective of its best solution
with the problem's checker, and check its certificate in exact arithmetic with the stand-alone
checker.

Exit code: 0 if everything is right, 1 if something is wrong, 2 for bad input."""

KNOWN = (
    *("grade", "status", "best_known", "best_bound", "proof", "proved_with"),
    *("found_by", "found_with", "bound_by", "bound_with"),
)
"""The fields of the best known results in ``list --format json``, in order."""

SHOWN = ("grade", "problem", "variant", "proof", "size", "best_known", "best_bound")
"""The fields that ``list`` shows of each instance."""

OWN_FOLDER = "lyra-opt-library"
"""The default folder of a user's own records."""

SUBMIT_DESCRIPTION = f"""\
Submit solutions of library instances: files that "solve --out" writes, or objects of
"solve --format json"; each names its instance. The problem's checker recomputes their objectives. A
solution that is better than the best known one is added to your own records, with the date and its
author: DIR/records/best-known-VERSION-DATE.json and DIR/solutions/, where DIR is {OWN_FOLDER} in
the working folder. Other commands use these records with --record DIR. The library itself does not
change.

Exit code: 0 if all solutions are better, 1 if a solution is refused because it is not better or
not valid (better ones are kept), 2 for bad input, in which case nothing is written."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> argparse._SubParsersAction[Any]:
    """Add the sub-command ``library``, and return its own sub-commands for further ones."""
    library = add_command(
        subparsers,
        "library",
        "the instance library: instances with their best known solutions",
        "Instances of all problems, with their best known solutions, bounds and proofs.",
        EXAMPLES,
    )
    commands = library.add_subparsers(metavar="COMMAND")
    listing = add_command(commands, "list", "list the instances, one per line")
    completed_by_problems(
        listing.add_argument("--problem", metavar="NAME", help="only instances of this problem")
    )
    listing.add_argument("--grade", choices=GRADES, help="only instances of this grade")
    add_variant_option(listing)
    listing.add_argument(
        "--status", choices=STATUSES, help="only instances with, or without, a proved optimum"
    )
    add_format_option(listing)
    _add_record(listing)
    listing.set_defaults(run=run_list)

    show = add_command(commands, "show", "show all information on an instance")
    _add_id(show)
    add_format_option(show, TEXT_FORMATS)
    _add_record(show)
    show.set_defaults(run=run_show)

    get = add_command(commands, "get", "write instances, solutions and proofs", GET_DESCRIPTION)
    _add_ids(get, "id of an instance")
    get.add_argument("--all", action="store_true", help="all instances; some are large")
    get.add_argument(
        "--out", metavar="DIR", required=True, help="output folder, created if missing"
    )
    _add_record(get)
    get.set_defaults(run=run_get)

    verify = add_command(
        commands, "verify", "check instances, solutions and proofs", VERIFY_DESCRIPTION
    )
    _add_ids(verify, "id of an instance (default: all instances)")
    _add_record(verify)
    verify.set_defaults(run=run_verify)

    submit = add_command(commands, "submit", "submit a better solution", SUBMIT_DESCRIPTION)
    submit.add_argument("solutions", nargs="+", metavar="SOLUTION", help="solution file")
    submit.add_argument(
        "--record",
        metavar="DIR",
        default=OWN_FOLDER,
        help=f"folder of your own records, created if missing (default {OWN_FOLDER})",
    )
    submit.add_argument(
        "--by",
        metavar="NAME",
        type=plain_text,
        default="anonymous",
        help="author of the solutions (default anonymous)",
    )
    add_format_option(submit, TEXT_FORMATS)
    submit.set_defaults(run=run_submit)
    return commands


def add_variant_option(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--variant``, which chooses instances of one kind within a problem."""
    parser.add_argument(
        "--variant", metavar="NAME", help="only this variant, such as rigid or mean_jct"
    )


def require_variant(field: str, variant: str | None, entries: Iterable[Entry]) -> None:
    """Raise `FieldError` if a variant is given that none of the instances has."""
    known = list(dict.fromkeys(each.variant for each in entries))
    if variant is not None and variant not in known:
        raise FieldError(field, variant, unknown_key(variant, known, noun="variant"))


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--record",
        metavar="DIR",
        help="also use your own records, from the folder that submit writes",
    )


def _library(arguments: argparse.Namespace) -> Library:
    """Return the library, including the user's own records if ``--record`` is given."""
    from lyra_opt.core.errors import UserError
    from lyra_opt.instances.library import library
    from lyra_opt.instances.library.own import LibraryWithOwn

    if arguments.record is None:
        return library()
    folder = Path(arguments.record)
    if not folder.is_dir():
        raise UserError(f"--record {folder}: the folder does not exist")
    return LibraryWithOwn(library().folder, folder)


def _add_id(parser: argparse.ArgumentParser) -> None:
    completed_by(parser.add_argument("id", metavar="ID", help="id of an instance"), _ids)


def _add_ids(parser: argparse.ArgumentParser, meaning: str) -> None:
    completed_by(parser.add_argument("ids", nargs="*", metavar="ID", help=meaning), _ids)


def _ids() -> Sequence[str]:
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
        "library": library.version_of(entry),
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
    records = write_submissions(shelf, found)
    if arguments.form == "json":
        print_json([each.as_json_object() for each in found])
    else:
        for each in found:
            print_line(each.in_words(), indent="  ")
        for record in records:
            print_line(f"{record}: your record; use it in other commands with --record {folder}")
    return 0 if all(each.now for each in found) else 1
