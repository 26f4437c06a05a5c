"""``lyra-opt cite``: print the BibTeX entries for a paper that uses lyra-opt."""

import argparse
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lyra_opt.core.errors import UserError, without_inner_frames
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.texts import PrintedText
from lyra_opt.core.version import VERSION

ALL = "all"


def cited_names() -> list[str]:
    """Return the names that `cite` takes."""
    return [*_cited(), ALL]


def run(arguments: argparse.Namespace) -> int:
    """Run ``lyra-opt cite`` and return the exit code."""
    print(cite(*arguments.names), end="")
    return 0


@without_inner_frames
def cite(*names: str) -> str:
    """Return BibTeX entries for a paper that uses lyra-opt.

    Parameters
    ----------
    *names
        Problems, schemes, traces, or keys of entries, such as ``"reclaim"``; ``"all"`` for all
        entries; no name for the software and the instance library.

    Raises
    ------
    UserError
        If nothing has a name.

    Examples
    --------
    >>> cite("gavel").splitlines()[0]
    '@inproceedings{gavel,'
    """
    cited = _cited()
    for name in names:
        if name not in (*cited, ALL):
            raise UserError(f"cite {name}: unknown name; {meant(name, [*cited, ALL])}")
    entries: dict[str, str] = _data()["bibtex"]
    keys = [key for name in names or ("software", "library") for key in cited.get(name, entries)]
    texts = [entries[key].replace("{version}", VERSION) for key in dict.fromkeys(keys)]
    return PrintedText("\n".join(f"{text}\n" for text in texts))


@cache
def _data() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("citations.toml").read_text(encoding="utf-8"))


def _cited() -> Mapping[str, list[str]]:
    """Return the keys of entries by the name of what a paper uses, or by the key itself."""
    by_use = {name: each["cite"] for each in _data()["use"] for name in each["names"]}
    return {key: [key] for key in _data()["bibtex"]} | by_use
