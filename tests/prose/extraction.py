"""The texts of the project that people read: where each stands, and of which kind it is."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CODE = ("lyra_opt", "formulations", "instances", "experiments", "paper_figures")
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/**/*.md",
    *(f"{folder}/**/README.md" for folder in CODE),
)
TOML_TEXTS = {"description", "note", "notes", "caption", "says", "title"}


_TABLE = re.compile(r"^ *(===|---|- |>>> )", re.MULTILINE)
"""Matches a table, a list, a heading or an example in a docstring."""


class Text(NamedTuple):
    """One piece of prose: a docstring, a comment, a string of code, a paragraph or a table cell."""

    file: Path
    line: int
    kind: str
    words: str


def texts(root: Path) -> Iterator[Text]:
    """Yield every text in the Python files, TOML files and pages below `root`."""
    for path in _own_files(root, "*.py"):
        yield from python_texts(path, path.read_text(encoding="utf-8"))
    for path in _own_files(root, "*.toml"):
        yield from toml_texts(path, path.read_text(encoding="utf-8"))
    for path in sorted({page for pattern in PAGES for page in root.glob(pattern)}):
        if not _is_linked(path, root) and "generated" not in path.parts:
            yield from page_texts(path, path.read_text(encoding="utf-8"))


def _own_files(root: Path, pattern: str) -> Iterator[Path]:
    """Yield the files of the packages, but not again through the links in `lyra_opt`."""
    for folder in CODE:
        yield from (p for p in sorted((root / folder).rglob(pattern)) if not _is_linked(p, root))


def _is_linked(path: Path, root: Path) -> bool:
    return any(parent.is_symlink() for parent in (path, *path.parents) if root in parent.parents)


def python_texts(path: Path, source: str) -> Iterator[Text]:
    """Yield the docstrings, the comments and the other strings of a Python file."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        for statement in (
            getattr(node, "body", ()) if isinstance(getattr(node, "body", ()), list) else ()
        ):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                docstrings.add(statement.value)
                if isinstance(words := statement.value.value, str):
                    prose = [each for each in words.split("\n\n") if not _TABLE.search(each)]
                    for number, paragraph in enumerate(prose):
                        kind = "paragraph" if number else "docstring"
                        yield Text(path, statement.lineno, kind, " ".join(paragraph.split()))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node not in docstrings
        ) and len(node.value.split()) > 2:
            yield Text(path, node.lineno, "string", " ".join(node.value.split()))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], "comment", token.string.lstrip("# "))


def toml_texts(path: Path, source: str) -> Iterator[Text]:
    """Yield the comments of a TOML file and the values of its descriptions, notes and captions."""
    for number, line in enumerate(source.splitlines(), 1):
        if line.startswith("# "):
            yield Text(path, number, "comment", line[2:])
    for words in _described(tomllib.loads(source)):
        yield Text(path, 0, "toml", " ".join(words.split()))


def _described(value: Any, *, is_text: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _described(each, is_text=key in TOML_TEXTS)
    elif isinstance(value, list):
        for each in value:
            yield from _described(each, is_text=is_text)
    elif is_text and isinstance(value, str):
        yield value


def page_texts(path: Path, source: str) -> Iterator[Text]:
    """Yield the paragraphs, list items and table cells of a page, without its blocks of code."""
    blanked = re.sub(
        r"```.*?```", lambda block: "\n" * block[0].count("\n"), source, flags=re.DOTALL
    )
    line = 1
    for paragraph in re.split(r"(\n\s*\n)", blanked):
        if paragraph.lstrip().startswith(("|", "-", "*")):
            items = re.split(r"\||\n(?=[-*|])", paragraph)
            yield from (
                Text(path, line, "cell", " ".join(item.split())) for item in items if item.strip()
            )
        elif paragraph.strip():
            yield Text(path, line, "page", " ".join(paragraph.split()))
        line += paragraph.count("\n")
