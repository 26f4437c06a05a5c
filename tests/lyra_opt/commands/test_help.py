"""Help on a narrow terminal."""

import argparse
import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

from lyra_opt.__main__ import make_parser


def parsers(parser):
    """Yield a parser and those of all its sub-commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def shown(parser, capsys, columns):
    """Return the lines of a parser's help on a terminal of so many columns."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit):
            parser.parse_args(["--help"])
    return capsys.readouterr().out.splitlines()


def test_every_help_fits_80_columns_and_says_the_same(capsys):
    """Protects whoever reads in a terminal of usual width: no line is broken within a word."""

    def words(lines):
        return re.findall(r"[\w=]+", " ".join(lines[lines.index("") :]))

    for parser in parsers(make_parser()):
        narrow, wide = shown(parser, capsys, 80), shown(parser, capsys, 200)
        assert max(map(len, narrow)) <= 80, parser.prog
        assert max(map(len, wide)) <= 100, parser.prog
        assert words(narrow) == words(wide)


def test_every_help_fits_one_screen(capsys):
    """A help text of 100 columns has at most 45 lines; the last one names the common options."""
    for parser in parsers(make_parser()):
        lines = shown(parser, capsys, 100)
        assert len(lines) <= 45, parser.prog
        assert lines[-1].startswith("Every command: "), parser.prog


def test_a_folded_command_can_be_pasted(capsys):
    """Protects examples: what goes on in the next line ends with a backslash."""
    solve = next(parser for parser in parsers(make_parser()) if parser.prog == "lyra-opt solve")
    lines = shown(solve, capsys, 60)
    (place,) = [place for place, line in enumerate(lines) if line.endswith("lyra-greedy \\")]
    assert lines[place].startswith("  lyra-opt solve *.json ")
    assert lines[place + 1].startswith("      --solver cpsat ")


def test_the_command_line_has_only_documented_keys():
    """A key that is misspelt would be ignored; a shared option that nothing uses is forgotten."""
    text = Path("lyra_opt/command_line.toml").read_text()
    lists = re.findall(r"^# ([\w ,]+?)  +\S", text.partition("[shared]")[0], re.MULTILINE)
    known = set(", ".join(lists).split(", "))
    document = tomllib.loads(text)
    shared = document.pop("shared")
    options = [*chain(*shared.values())]
    for table in document.values():
        options += [*table.get("options", ()), *chain(*table.get("sections", {}).values())]
        assert set(table) <= known
    tables = [each for each in options if isinstance(each, dict)]
    assert all(set(each) <= known for each in tables)
    used = {each.get("use") if isinstance(each, dict) else each for each in options}
    assert set(shared) <= used.union(*(each.get("one_of", ()) for each in tables))
