"""The code of a model stands below its mathematics, constraint by constraint.

READMEs of formulations name each constraint beside its inequality, and the function that adds it to
a model has that name. Where a page includes such a README, the functions that a formula names are
shown below it, read from the module as it is.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_FORMULA = re.compile(r"^```math\n(.*?)^```[ \t]*$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"\\text(?:tt)?\{\(?([a-z]+(?:\\?_[a-z]+)*)")

AROUND = ("add_variables", "add_objective", "cost", "gain")
"""What stands around the constraints of a model: shown with the first of them that is."""


def functions_of(module: Path) -> list[str]:
    """Return the functions that a module defines, in order."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def with_code(text: str, modules: dict[str, list[str]]) -> str:
    """Return a text with the code of what its formulas name below each of them.

    Parameters
    ----------
    text
        Markdown whose formulas are fenced blocks.
    modules
        The functions of each module that the text is about, by its path in the tree. A formula is
        about the one with most of the names in it, the first of several.
    """
    shown: set[tuple[str, str]] = set()

    def with_code_below(formula: re.Match[str]) -> str:
        named = {name.replace("\\", "") for name in _NAME.findall(formula[1])}
        module = max(modules, key=lambda each: len(named & set(modules[each])))
        new = [name for name in modules[module] if name in named and (module, name) not in shown]
        if not new:
            return formula[0]
        if all(of != module for of, _ in shown):
            new = [name for name in modules[module] if name in (*new, *AROUND)]
        shown.update((module, name) for name in new)
        code = "".join(
            f"```{{literalinclude}} /../{module}\n:pyobject: {name}\n:language: python\n```\n\n"
            for name in new
        )
        below = f":::{{container}} model-code\nIn code, `{module}`:\n\n{code}:::"
        return f"{formula[0]}\n\n{below}"

    return _FORMULA.sub(with_code_below, text)


def _of_include(app: Sphinx, path: Path, _parent: str, content: list[str]) -> None:
    root = Path(app.srcdir).parent
    file = (Path(app.srcdir) / path).resolve()
    modules = file.is_relative_to(root) and app.config.models_of_files.get(
        file.relative_to(root).as_posix()
    )
    if modules:
        functions = {module: functions_of(root / module) for module in modules}
        content[0] = with_code(content[0], functions)


def setup(app: Sphinx) -> dict[str, Any]:
    """Take part in a build."""
    app.add_config_value("models_of_files", {}, "env", [dict])
    app.connect("include-read", _of_include)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
