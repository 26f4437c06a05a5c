"""The site's pages hang together, without building it (`make docs` does, and runs the gallery)."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = sorted((DOCS / "gallery").glob("plot_*.py"))
DRAWING = {"figure", "plot", "plot_progress"}


def test_the_gallery_is_not_small() -> None:
    """What is asked of it."""
    assert len(GALLERY) >= 16


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_an_example_has_a_title_and_ends_in_a_picture(script: Path) -> None:
    """The last line is the figure, which the page shows."""
    module = ast.parse(script.read_text(encoding="utf-8"))
    title, rule, *_ = (ast.get_docstring(module) or "").splitlines()
    assert len(rule) == len(title)
    last = module.body[-1]
    assert isinstance(last, ast.Expr)
    assert isinstance(last.value, ast.Call)
    assert isinstance(last.value.func, ast.Attribute)
    assert last.value.func.attr in DRAWING


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> object:
    """Return the extension that leads links of included files right."""
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    import tree_links

    yield tree_links
    sys.modules.pop("tree_links")


def test_links_of_included_files_lead_where_they_lead_in_the_tree(links: object) -> None:
    """To a page, to a file that can be read, or nowhere where that is a folder; not in code."""
    file = DOCS.parent / "lyra_opt/reclaim/README.md"
    pages = {"formulations/reclaim/README.md": "problems/reclaim_mathematics"}

    def led(text: str) -> str:
        return links.led_right(text, file, DOCS, pages)  # type: ignore[attr-defined,no-any-return]

    assert led("[f](../../docs/formats.md#a)") == "[f](/formats.md#a)"
    mathematics = "[m](../../formulations/reclaim/README.md#5-the-bound)"
    assert led(mathematics) == "[m](/problems/reclaim_mathematics.md#5-the-bound)"
    assert led("[c](checker.py)") == "[c](path:/../lyra_opt/reclaim/checker.py)"
    assert led("the [bounds](bounds)") == "the bounds"
    assert led("[w](https://a.b/c.md) [h](#here)") == "[w](https://a.b/c.md) [h](#here)"
    assert led("```\n[c](checker.py)\n```\n") == "```\n[c](checker.py)\n```\n"
