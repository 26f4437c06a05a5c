"""The site's pages hang together, without building it (`make docs` does, and runs the gallery)."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
GALLERY = sorted((DOCS / "gallery").glob("plot_*.py"))
DRAWING = {"figure", "plot", "plot_progress"}


def test_the_gallery_is_not_small():
    """What is asked of it."""
    assert len(GALLERY) >= 16


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_an_example_has_a_title_and_ends_in_a_picture(script):
    """The last line is the figure, which the page shows."""
    module = ast.parse(script.read_text(encoding="utf-8"))
    title, rule, *_ = (ast.get_docstring(module) or "").splitlines()
    assert len(rule) == len(title)
    last = module.body[-1]
    assert last.value.func.attr in DRAWING


@pytest.fixture
def extension(monkeypatch):
    """Return a function that imports an extension of the site by its name."""
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    return import_module


def test_links_of_included_files_lead_where_they_lead_in_the_tree(extension):
    """To a page, to a file that can be read, or nowhere where that is a folder; not in code."""
    file = DOCS.parent / "lyra_opt/reclaim/README.md"
    pages = {"formulations/reclaim/README.md": "problems/reclaim_mathematics"}

    def led(text):
        return extension("tree_links").led_right(text, file, DOCS, pages)

    assert led("[f](../../docs/formats/reclaim.md#a)") == "[f](/formats/reclaim.md#a)"
    mathematics = "[m](../../formulations/reclaim/README.md#5-the-bound)"
    assert led(mathematics) == "[m](/problems/reclaim_mathematics.md#5-the-bound)"
    assert led("[c](checker.py)") == "[c](path:/../lyra_opt/reclaim/checker.py)"
    assert led("the [bounds](bounds)") == "the bounds"
    assert led("[w](https://a.b/c.md) [h](#here)") == "[w](https://a.b/c.md) [h](#here)"
    assert led("```\n[c](checker.py)\n```\n") == "```\n[c](checker.py)\n```\n"


def shown_models():
    """Return the modules whose code is shown below the mathematics, by file of that."""
    module = ast.parse((DOCS / "conf.py").read_text(encoding="utf-8"))
    (files,) = (
        ast.literal_eval(node.value)
        for node in module.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "models_of_files"
    )
    return files


def test_code_stands_below_what_names_it(extension):
    """Each function once, below the first formula that names it, with what stands around them."""
    beside = extension("models_beside")
    text = "```math\n\\text{whole\\_gang: each } t\n```\n\nAnd `work_done`.\n\n```math\nx\n```\n"
    names = ["add_variables", "whole_gang", "work_done", "add_objective", "build"]
    shown = beside.with_code(text + text, {"a/b.py": ["build"], "a/c.py": names})
    objects = re.findall(r"literalinclude\} (\S+)\n:pyobject: (\w+)", shown)
    assert objects == [
        ("/../a/c.py", name) for name in ("add_variables", "whole_gang", "add_objective")
    ]
    assert shown.startswith(text.partition("\n\n")[0] + "\n\n:::{container}")


@pytest.mark.parametrize("file", shown_models())
def test_every_constraint_stands_beside_its_mathematics(extension, file):
    """A new one that the mathematics does not name in a formula is missed."""
    beside, root = extension("models_beside"), DOCS.parent
    modules = {module: beside.functions_of(root / module) for module in shown_models()[file]}
    shown = beside.with_code((root / file).read_text(encoding="utf-8"), modules)
    for module, functions in modules.items():
        (constraints,) = re.findall(
            r"^CONSTRAINTS = \((.*?)\)$", (root / module).read_text(), re.DOTALL | re.MULTILINE
        )
        for name in set(re.findall(r"\w+", constraints)) & set(functions):
            assert f"/../{module}\n:pyobject: {name}\n" in shown, name


def test_every_section_has_a_navigation():
    """Beside a page of the first level stand those below it: none is alone there."""
    (tree,) = re.findall(
        r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), re.MULTILINE | re.DOTALL
    )
    pages = re.findall(r"([\w/]+)>?$", tree.partition("\n\n")[2], re.MULTILINE)
    assert "get_started" in pages
    for page in pages:
        if not page.startswith("_gallery"):  # which a build makes
            assert "{toctree}" in (DOCS / f"{page}.md").read_text(encoding="utf-8"), page
