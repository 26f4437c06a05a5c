"""The command ``lyra-opt plan``: which nodes to drain, whom to preempt, and how to do it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import (
    above_zero,
    add_command,
    add_format_option,
    add_picture_options,
    add_repeated_option,
    add_seed_option,
    integer_from,
)
from lyra_opt.commands.messages import complain
from lyra_opt.commands.output import print_json, print_line, require_file_path
from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import suggestion

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from lyra_opt.instances.snapshots.owners import Form

DESCRIPTION = """\
Read what kubectl or Slurm printed about a cluster. Print the best plan, the commands for it, whom
it hurts, and the proof that no plan is better. No cluster is contacted, and no command is run."""

DRAIN_EXAMPLES = """\
  kubectl get nodes,pods -A -o json | lyra-opt plan drain --nodes 6
  lyra-opt plan drain gpu-07 gpu-11 --snapshot cluster.json
"""

FIT_EXAMPLE = """\
  lyra-opt plan fit --pods 8 --gpus 8 --priority 1000 --level rack --snapshot cluster.json
"""

CONSOLIDATE_EXAMPLE = """\
  lyra-opt plan consolidate --moves 20 --snapshot nodes.json --snapshot pods.json
"""

EPILOG = """\
examples:
{examples}
The page "I have a cluster" of the documentation says which files to collect.
Exit code: 0; 1 if no plan exists or none was found in time; 2 for bad input.
"""

ANONYMIZE_EXAMPLES = """\
examples:
  lyra-opt anonymize cluster.json --out public.json --table private.json
"""


def add_parsers(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-commands ``plan`` and ``anonymize`` to the command line."""
    _add_plan(subparsers)
    parser = add_command(
        subparsers,
        "anonymize",
        "replace the names in a snapshot, to show it to others",
        "Write a snapshot that has only the fields a plan needs, with pseudonyms instead of names, "
        "namespaces, label values, owners and users. Its plans are the same up to names.",
        ANONYMIZE_EXAMPLES,
    )
    parser.add_argument("snapshots", nargs="+", metavar="FILE", help="files of one cluster")
    parser.add_argument("--out", required=True, metavar="FILE", help="the snapshot to show")
    parser.add_argument(
        "--table",
        required=True,
        metavar="FILE",
        help="file for the names and their pseudonyms; keep it private",
    )
    parser.add_argument("--reader", metavar="NAME", help="reader (default: recognised by content)")
    parser.set_defaults(run=run_anonymize)


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


def _add_plan(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command ``plan`` with its three questions to the command line."""
    parser = add_command(
        subparsers,
        "plan",
        "answer an operator's question about a real cluster",
        DESCRIPTION,
        EPILOG.format(examples=DRAIN_EXAMPLES + FIT_EXAMPLE + CONSOLIDATE_EXAMPLE),
    )
    questions = parser.add_subparsers(metavar="QUESTION", required=True)
    drain = add_command(
        questions,
        "drain",
        "which nodes to drain so that the fewest jobs stop",
        "Choose the nodes whose draining stops the fewest jobs, or say whom draining named nodes "
        "stops. Open nodes with GPUs can be chosen.",
        EPILOG.format(examples=DRAIN_EXAMPLES),
    )
    drain.add_argument("names", nargs="*", metavar="NODE", help="a node that must be drained")
    drain.add_argument(
        "--nodes",
        type=integer_from(0),
        default=0,
        metavar="N",
        help="number of nodes to choose, besides NODE",
    )
    _add_among(drain, "open nodes with GPUs")
    add_repeated_option(drain, "--not", "NODE", "a node that must not be chosen", dest="without")
    drain.set_defaults(question="drain")
    _add_common(drain)

    _add_fit(questions)
    consolidate = add_command(
        questions,
        "consolidate",
        "how many nodes can be empty if pods may move",
        "Find the largest number of nodes that can be emptied by moving pods, without stopping "
        "anybody for good. A pod that moves is restarted.",
        EPILOG.format(examples=CONSOLIDATE_EXAMPLE),
    )
    consolidate.add_argument(
        "--moves",
        type=integer_from(0),
        metavar="N",
        help="largest number of pods that move (default: any)",
    )
    _add_among(consolidate, "open nodes with GPUs")
    consolidate.set_defaults(question="consolidate")
    _add_common(consolidate)

    example = add_command(
        questions,
        "example",
        "write an example cluster, to try the questions on",
        "Write a generated cluster of nodes with 8 GPUs as kubectl prints it. Its priority classes "
        "are p1 to p3, its levels rack and block.",
        "examples:\n  lyra-opt plan example > cluster.json",
    )
    example.add_argument(
        "--nodes",
        type=integer_from(1, 10_000),
        default=40,
        metavar="N",
        help="number of nodes (default: 40)",
    )
    add_seed_option(example, "the cluster")
    example.set_defaults(run=run_example)


def _add_fit(questions: argparse._SubParsersAction[Any]) -> None:
    """Add the question whom to preempt to the sub-command ``plan``."""
    fit = add_command(
        questions,
        "fit",
        "whom to preempt so that pending pods fit",
        "Choose the jobs of lower priority that give way to a pending gang, or to described pods.",
        EPILOG.format(examples=FIT_EXAMPLE),
    )
    fit.add_argument("names", nargs="?", metavar="GANG", help="a pending gang or job, by name")
    fit.add_argument(
        "--pods", type=integer_from(1), metavar="N", help="number of pods, if no GANG is named"
    )
    fit.add_argument("--gpus", metavar="N", help="GPUs of each pod, such as 8")
    fit.add_argument("--cpu", metavar="N", help="CPUs of each pod, such as 32 or 500m")
    fit.add_argument("--memory", metavar="SIZE", help="memory of each pod, such as 128Gi")
    resource = "another resource, by its full name"
    add_repeated_option(fit, "--resource", "NAME=N", resource, dest="resource")
    fit.add_argument(
        "--priority", metavar="CLASS|N", help="priority class, partition or number (default: 0)"
    )
    fit.add_argument(
        "--level",
        metavar="LABEL",
        help="label, or its end, that the nodes of all pods share: rack",
    )
    fit.add_argument(
        "--type", metavar="TEXT", help="use only nodes whose GPU type contains TEXT, such as h100"
    )
    add_repeated_option(
        fit, "--tolerate", "KEY", "a taint that the described pods tolerate", dest="tolerate"
    )
    _add_among(fit, "all open nodes")
    add_repeated_option(fit, "--not", "NODE", "a node that must not be used", dest="without")
    add_repeated_option(fit, "--drain", "NODE", "a node that is drained first", dest="drain")
    fit.set_defaults(question="fit")
    _add_common(fit)


def run_example(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt plan example`` and return the exit code."""
    from lyra_opt.front_door.generating import generate
    from lyra_opt.instances.snapshots.sample import kubectl_list

    cluster = generate("preemption", "crowded", nodes=arguments.nodes, seed=arguments.seed)
    print_json(kubectl_list(cluster))
    return 0


def _add_among(parser: argparse.ArgumentParser, default: str) -> None:
    text = f"choose nodes by labels, such as rack=r1,zone!=b (default: {default})"
    parser.add_argument("--among", metavar="SELECTOR", help=text)


def _add_common(parser: argparse.ArgumentParser) -> None:
    files = parser.add_argument_group("input")
    add_repeated_option(
        files, "--snapshot", "FILE", "output of kubectl or Slurm (default: the standard input)"
    )
    files.add_argument("--reader", metavar="NAME", help="reader (default: recognised by content)")
    add_repeated_option(
        files,
        "--owner",
        "KIND=WORD",
        "unknown owner: gang (all needed), single or fixed",
    )
    choices = parser.add_argument_group("choices")
    choices.add_argument(
        "--cost",
        default="gangs",
        metavar="COST",
        help="what a loss costs: gangs (default), pods, gpus, time or annotation:KEY",
    )
    choices.add_argument(
        "--force", action="store_true", help="pods without a controller may be stopped"
    )
    choices.add_argument(
        "--keep-budgets",
        action="store_true",
        help="refuse plans that exceed a disruption budget, even by little",
    )
    choices.add_argument(
        "--time-limit",
        type=above_zero("s"),
        default=60.0,
        metavar="S",
        help="seconds after which the best plan is printed without a proof (default: 60)",
    )
    output = parser.add_argument_group("output")
    add_repeated_option(
        output, "--explain", "NODE", "say why the plan uses a node, or why it does not"
    )
    add_picture_options(output, "draw the nodes")
    output.add_argument("--page", metavar="FILE", help="write an HTML page to pass on")
    add_format_option(output)
    parser.set_defaults(run=run)


def _resources(texts: list[str]) -> dict[str, str]:
    """Return the amounts of the resources of ``--resource``, by name."""
    found = {}
    for text in texts:
        name, equals, number = text.partition("=")
        if not equals:
            raise UserError(f"--resource {text}: must be NAME=N, such as nvidia.com/gpu=2")
        found[name] = number
    return found


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
    options = {name: getattr(arguments, name) for name in OPTIONS[arguments.question]}
    if "resource" in options:
        options["resource"] = _resources(options["resource"])
    found = plan(
        arguments.snapshots or ["-"],
        arguments.question,
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
