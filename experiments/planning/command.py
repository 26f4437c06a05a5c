"""The command ``lyra-opt plan``: which nodes to drain, whom to preempt, and how to do it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lyra_opt.commands.messages import complain
from lyra_opt.commands.output import print_json, print_line, require_file_path
from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import suggestion

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from lyra_opt.instances.snapshots.owners import Form


def run_anonymize(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt anonymize`` and return the exit code."""
    from lyra_opt.core.documents import format_document, write_text
    from lyra_opt.instances.snapshots.anonymise import anonymised
    from lyra_opt.instances.snapshots.reading import read_file, reader_of

    for option, path in (("--out", arguments.out), ("--table", arguments.table)):
        require_file_path(option, path)
    if Path(arguments.out).absolute() == Path(arguments.table).absolute():
        raise UserError("--out and --table must be different files")
    files = [read_file(path) for path in arguments.snapshots]
    document, table = anonymised(files, reader_of(files, arguments.reader))
    write_text(arguments.table, format_document(dict(table)))
    write_text(arguments.out, format_document(document))
    print_line(f"{arguments.out} has {len(table)} pseudonyms. Keep {arguments.table} for yourself.")
    return 0


def run_example(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt plan example`` and return the exit code."""
    from lyra_opt.front_door.generating import generate
    from lyra_opt.instances.snapshots.sample import kubectl_list

    cluster = generate("preemption", "crowded", nodes=arguments.nodes, seed=arguments.seed)
    print_json(kubectl_list(cluster))
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt plan`` and return the exit code."""
    from lyra_opt.core.pictures import require_picture_path
    from lyra_opt.experiments.planning.asking import names_in
    from lyra_opt.experiments.planning.page import require_page_path
    from lyra_opt.experiments.planning.showing import print_plan, text_of
    from lyra_opt.front_door.planning import OPTIONS, plan

    if arguments.plot is not None:
        require_picture_path("--plot", arguments.plot, arguments.snapshots)
        require_file_path("--plot", arguments.plot)
    if arguments.page is not None:
        require_page_path("--page", arguments.page)
    options = {name: getattr(arguments, name) for name in OPTIONS[arguments.command]}
    if "resource" in options:
        options["resource"] = dict(options["resource"])
    found = plan(
        arguments.snapshots or ["-"],
        arguments.command,
        *names_in(getattr(arguments, "names", None) or ()),
        cost=arguments.cost,
        force=arguments.force,
        keep_budgets=arguments.keep_budgets,
        time_limit_s=arguments.time_limit,
        explain=arguments.explains,
        reader=arguments.reader,
        owner=dict(_owner(text) for text in arguments.owners),
        progress=True,
        **options,
    )
    if arguments.plot is not None and found.exists:
        found.plot(style=arguments.style, file=arguments.plot)
    elif arguments.plot is not None:
        complain(f"--plot {arguments.plot}: not written, because there is no plan to draw")
    if arguments.page is not None:
        found.page(arguments.page)
    if arguments.form == "table":
        print_plan(found, found.explanations)
    else:
        print(text_of(found, arguments.form, found.explanations), end="")
    if arguments.form == "csv":
        for sentence in (*[found.proof] * (not found.exists), *found.explanations):
            complain(sentence)
    return 0 if found.exists else 1


def _owner(text: str) -> tuple[str, Form]:
    kind, _, word = text.partition("=")
    forms: Mapping[str, Form] = {"gang": "gang", "single": "single", "fixed": "fixed"}
    if kind and word in forms:
        return kind, forms[word]
    hint = "" if word in forms else suggestion(word, forms)
    raise UserError(f"--owner {text}: must be KIND=gang, KIND=single or KIND=fixed{hint}")
