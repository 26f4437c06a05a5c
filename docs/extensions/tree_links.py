"""Relative links of Markdown lead where they lead in the tree, whatever page the text is shown on.

READMEs beside the code are part of the site: pages include them. On a code host their links count
from the file that they stand in, and so they do here: a link to a file that has a page leads to
that page, one to another file of the tree lets it be read, and one to a folder is text.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LINK = re.compile(r"(!?)\[((?:[^\]\[]|\[[^\]]*\])*)\]\((?![a-z]+:|#|/)([^)#\s]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^(```+|:::+).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)


def led_right(text: str, file: Path, docs: Path, pages: dict[str, str]) -> str:
    """Return a file's text with its relative links as links of a page of the site.

    Parameters
    ----------
    text, file
        What stands in which file, outside of fenced blocks.
    docs
        The folder of the pages; above it is the tree.
    pages
        The page that includes a file, by the file's path in the tree.
    """

    def link(found: re.Match[str]) -> str:
        mark, words, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = (file.parent / target).resolve()
        if path.is_dir():
            return words
        inside = path.is_relative_to(docs)
        page = pages.get(path.relative_to(docs.parent).as_posix()) if not inside else None
        if page:
            return f"{mark}[{words}](/{page}.md{anchor})"
        if inside:
            return f"{mark}[{words}](/{path.relative_to(docs).as_posix()}{anchor})"
        return f"{mark}[{words}](path:/../{path.relative_to(docs.parent).as_posix()})"

    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(link, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, _LINK.sub(link, text[end:])])


def _of_source(app: Sphinx, name: str, content: list[str]) -> None:
    file = Path(str(app.env.doc2path(name)))
    if file.suffix == ".md":
        content[0] = led_right(content[0], file, Path(app.srcdir), app.config.pages_of_files)


def _of_include(app: Sphinx, path: Path, _parent: str, content: list[str]) -> None:
    file = (Path(app.srcdir) / path).resolve()
    if file.suffix == ".md":
        content[0] = led_right(content[0], file, Path(app.srcdir), app.config.pages_of_files)


def setup(app: Sphinx) -> dict[str, Any]:
    """Take part in a build."""
    app.add_config_value("pages_of_files", {}, "env", [dict])
    app.connect("source-read", _of_source)
    app.connect("include-read", _of_include)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
