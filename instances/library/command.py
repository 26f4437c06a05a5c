"""``lyra-opt library``: the instances that come along, and the best that is known of each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import (
    add_command,
    add_json_option,
    completed_by,
    completed_by_problems,
    plain_text,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from lyra_opt.instances.library.documents import Entry
    from lyra_opt.instances.library.shelf import Library

GRADES = ("easy", "hard", "open")
STATUSES = ("optimal", "open")

EXAMPLES = """\
examples:
  lyra-opt library list --problem reclaim --grade open
  lyra-opt library show lyra-figure-5
  lyra-opt library get lyra-figure-5 --out fleets && lyra-opt solve fleets/lyra-figure-5.json
  lyra-opt library verify lyra-figure-5
  lyra-opt library submit solution.json --by "A. Author"
"""

GET_DESCRIPTION = """\
Write instances, ID.json, with their best solutions known, solutions/ID.solution.json, and
certificates, proofs/ID.proof.json, and print the paths. Instances that do not come along as files
are made from their seed; all are held against the catalogue's hashes."""

VERIFY_DESCRIPTION = """\
Recompute what the library says: the hash of each instance, the value of its best solution by the
checker of the problem, and its certificate by the stand-alone checker, in exact arithmetic.

Exit code: 0 if all is right, 1 if something is not, 2 for bad input."""

KNOWN = (
    *("grade", "status", "best_known", "best_bound", "proof", "proved_with"),
    *("found_by", "found_with", "bound_by", "bound_with"),
)
"""What ``list --json`` says of what is known of an instance, in order."""

OWN_FOLDER = "lyra-opt-library"
"""Where a user's own records are unless they say otherwise."""

SUBMIT_DESCRIPTION = f"""\
Hand in solutions of instances of the library: files as "solve --out" writes them, or objects of
"solve --json"; each names its instance. The checker of the problem recomputes what they are worth.
One that is better than the best known goes with its day, and who found it, into records of your
own: DIR/records/best-known-VERSION-DATE.json and DIR/solutions/, where DIR is {OWN_FOLDER} in the
working folder. Other commands count them with --record DIR. The library itself is not changed.

Exit code: 0 if all are better, 1 if one is refused because it is not better or not valid (the
others are kept), 2 for bad input; nothing is written then."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    library = add_command(
        subparsers,
        "library",
        "the instance library: instances with the best known of each",
        "Instances of all problems, with the best solutions, bounds and proofs known.",
        EXAMPLES,
    )
    commands = library.add_subparsers(metavar="COMMAND")
    listing = add_command(commands, "list", "the instances, a line each")
    completed_by_problems(
        listing.add_argument("--problem", metavar="NAME", help="those of a problem alone")
    )
    listing.add_argument("--grade", choices=GRADES, help="those of a grade alone")
    listing.add_argument("--status", choices=STATUSES, help="those that are proved, or are not")
    listing.add_argument(
        "--json", action="store_true", help="write one JSON array to stdout, an object an instance"
    )
    _add_record(listing)
    listing.set_defaults(run=run_list)

    show = add_command(commands, "show", "all that is known of an instance")
    _add_id(show)
    add_json_option(show)
    _add_record(show)
    show.set_defaults(run=run_show)

    get = add_command(commands, "get", "write instances and what proves them", GET_DESCRIPTION)
    _add_ids(get, "of an instance")
    get.add_argument("--all", action="store_true", help="all instances; some are large")
    get.add_argument(
        "--out", metavar="DIR", required=True, help="folder to write to, made if it is missing"
    )
    _add_record(get)
    get.set_defaults(run=run_get)

    verify = add_command(
        commands, "verify", "check instances, solutions and proofs", VERIFY_DESCRIPTION
    )
    _add_ids(verify, "of an instance; all if none is given")
    _add_record(verify)
    verify.set_defaults(run=run_verify)

    submit = add_command(
        commands, "submit", "hand in a solution that is better", SUBMIT_DESCRIPTION
    )
    submit.add_argument("solutions", nargs="+", metavar="SOLUTION", help="solution file")
    submit.add_argument(
        "--record",
        metavar="DIR",
        default=OWN_FOLDER,
        help=f"folder of your own records, made if it is missing (default {OWN_FOLDER})",
    )
    submit.add_argument(
        "--by",
        metavar="NAME",
        type=plain_text,
        default="anonymous",
        help="who found it (default anonymous)",
    )
    submit.add_argument(
        "--json", action="store_true", help="write one JSON array to stdout, an object a solution"
    )
    submit.set_defaults(run=run_submit)


def _add_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--record",
        metavar="DIR",
        help="count records of your own too, from the folder that submit writes",
    )


def _library(arguments: argparse.Namespace) -> Library:
    """Return the library, with records of the user's own where they are asked for."""
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
    completed_by(parser.add_argument("id", metavar="ID", help="of an instance"), _ids)


def _add_ids(parser: argparse.ArgumentParser, meaning: str) -> None:
    completed_by(parser.add_argument("ids", nargs="*", metavar="ID", help=meaning), _ids)


def _ids() -> Sequence[str]:
    from lyra_opt.instances.library import library

    return list(library().entries)


def described(library: Library, entry: Entry) -> dict[str, Any]:
    """Return an instance as ``list --json`` has it."""
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
        "page": entry.page,
        "file": entry.file,
        "sha256": entry.sha256,
    }


def run_list(arguments: argparse.Namespace) -> int:
    """Run ``list``; return the exit code."""
    from lyra_opt.commands.output import print_json, print_line, print_table
    from lyra_opt.core.plugins import PROBLEMS
    from lyra_opt.core.texts import show_value_of

    if arguments.problem is not None:
        PROBLEMS.require_known("--problem", arguments.problem)
    asked = {key: getattr(arguments, key) for key in ("problem", "grade", "status")}
    shelf = _library(arguments)
    found = [
        each
        for each in (described(shelf, entry) for entry in shelf.entries.values())
        if all(value in (None, each[key]) for key, value in asked.items())
    ]
    if arguments.json:
        print_json(found)
        return 0

    def shown(value: Any) -> str:
        return "" if value is None else show_value_of(value)

    columns = ("instance", "grade", "problem", "variant", "proof", "size", "best known", "bound")
    keys = ("id", "grade", "problem", "variant", "proof", "size", "best_known", "best_bound")
    rows = [[shown(each[key]) for key in keys] for each in found]
    if rows:
        print_table(columns, rows, right=5, elsewhere="--json")
    print_line(f"{len(found)} of {len(shelf.entries)} instances")
    return 0


def run_show(arguments: argparse.Namespace) -> int:
    """Run ``show``; return the exit code."""
    from lyra_opt.commands.output import print_json, print_line
    from lyra_opt.core.fields import written
    from lyra_opt.core.texts import show_seconds, show_value_of, words

    shelf = _library(arguments)
    entry = shelf.entry(arguments.id)
    best = shelf.known.get(entry.id)
    runs = best.runs if best else ()
    shown = described(shelf, entry)
    if arguments.json:
        print_json({**shown, "runs": [written(run) for run in runs]})
        return 0
    print_line(entry.id)
    shown |= {"provenance": entry.provenance.in_words(), "file": entry.file or "made on demand"}
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
    """Run ``get``; return the exit code."""
    from lyra_opt.commands.output import make_folder, require_folder_path
    from lyra_opt.core.documents import write_text
    from lyra_opt.core.errors import UserError

    if bool(arguments.ids) == arguments.all:
        raise UserError("get takes either ids or --all")
    require_folder_path("--out", Path(arguments.out))
    shelf = _library(arguments)
    names = list(shelf.entries) if arguments.all else list(dict.fromkeys(arguments.ids))
    for name in names:
        shelf.entry(name)  # all are known before the first is written
    for name in names:
        for path, text in _files_of(shelf, name):
            target = Path(arguments.out) / path
            make_folder(target.parent)
            write_text(target, text)
            print(target)
    return 0


def _files_of(library: Library, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the path inside of the output folder and the text of each file of an instance."""
    from lyra_opt.core.documents import format_document, read_text

    yield Path(f"{name}.json"), format_document(library.document(name))
    if name in library.known:
        solution = read_text(library.solution_file(name))
        yield Path("solutions", f"{name}.solution.json"), solution
    proof = library.proof_file(name)
    if proof is not None:
        yield Path("proofs", f"{name}.proof.json"), read_text(proof)


def run_verify(arguments: argparse.Namespace) -> int:
    """Run ``verify``; return the exit code."""
    from lyra_opt.commands.output import print_line
    from lyra_opt.instances.library.shelf import verified

    shelf = _library(arguments)
    names = list(dict.fromkeys(arguments.ids)) or list(shelf.entries)
    for name in names:
        shelf.entry(name)  # all are known before the first is checked
    wrong = 0
    for name in names:
        found = verified(shelf, name)
        wrong += bool(found.faults)
        print_line(found.in_words(), indent="  ")
    if len(names) > 1:
        print_line(f"{len(names) - wrong} of {len(names)} are right")
    return 1 if wrong else 0


def run_submit(arguments: argparse.Namespace) -> int:
    """Run ``submit``; return the exit code."""
    from lyra_opt.commands.output import print_json, print_line, require_folder_path
    from lyra_opt.instances.library import library
    from lyra_opt.instances.library.own import LibraryWithOwn, submitted, write_submissions

    folder = Path(arguments.record)
    require_folder_path("--record", folder)
    shelf = LibraryWithOwn(library().folder, folder)
    found = submitted(shelf, arguments.solutions, arguments.by)
    records = write_submissions(shelf, found)
    if arguments.json:
        print_json([each.as_json_object() for each in found])
    else:
        for each in found:
            print_line(each.in_words(), indent="  ")
        for record in records:
            print_line(f"{record}: your record, for other commands --record {folder}")
    return 0 if all(each.now for each in found) else 1
