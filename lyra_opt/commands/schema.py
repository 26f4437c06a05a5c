"""``lyra-opt schema``: print the JSON schema or the keys of a file format."""

import argparse
import json

from lyra_opt.commands.output import text_width
from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import meant


def file_formats() -> list[str]:
    """Return the names of the file formats that have a schema."""
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
