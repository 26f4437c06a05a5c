"""``lyra-opt schema``: print the JSON schema or the keys of a file format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import add_command, completed_by
from lyra_opt.commands.output import text_width
from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import meant

if TYPE_CHECKING:
    import argparse

EXAMPLES = """\
examples:
  lyra-opt schema lyra-opt/reclaim
  lyra-opt schema lyra-opt/reclaim-solution --keys
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command ``schema`` to the parser of ``lyra-opt``."""
    parser = add_command(
        subparsers,
        "schema",
        "write the JSON schema of a file format",
        "Write the JSON schema (2020-12) of a file format, such as that of the instances or the "
        "solutions of a problem, for editors and for programs in other languages. For scenarios, "
        "studies and tuning files use `lyra-opt scenarios schema`, `lyra-opt study --schema` and "
        "`lyra-opt tune --schema`. A schema cannot state every rule: lyra-opt also refuses ids "
        "that are unknown or not unique, keys that occur twice, and integers written as 8.0.",
        EXAMPLES,
    )
    completed_by(
        parser.add_argument(
            "format", metavar="FORMAT", help="value of the key `format` in the file"
        ),
        _formats,
    )
    parser.add_argument(
        "--keys", action="store_true", help="print a table of the keys instead of the schema"
    )
    parser.set_defaults(run=run)


def _formats() -> list[str]:
    from lyra_opt.core.formats import formats

    return list(formats())


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt schema`` and return the exit code."""
    from lyra_opt.core.described import keys_text
    from lyra_opt.core.formats import formats

    known = formats()
    if arguments.format not in known:
        hint = meant(arguments.format, known)
        raise UserError(f"format {arguments.format!r}: unknown format; {hint}")
    asked = known[arguments.format]
    if arguments.keys:
        print(keys_text(asked.keys(), text_width()))
    else:
        print(json.dumps(asked.schema(), indent=1))
    return 0
