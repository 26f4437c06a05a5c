"""A reader of the LaTeX that tables write, which accepts nothing but such tables."""

from __future__ import annotations

import re
import shutil
import subprocess

COMMANDS = {
    *("infty", "leq", "geq", "times", "cdot", "rightarrow"),
    *("textbackslash", "textasciitilde", "textasciicircum", "mu", "ldots"),
}
"""The commands of letters that tables use; others have one sign."""

NEEDS = "% Needs \\usepackage{booktabs}."
_TABULAR = re.compile(r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\n\\end\{tabular\}", re.DOTALL)


def rows_of_latex(text: str) -> list[list[list[str]]]:
    """Return the cells of each tabular of a text; fail on anything that LaTeX would not take."""
    tabulars = []
    assert text.isprintable() or set(text) - {"\n"} == {sign for sign in text if sign.isprintable()}
    around = _TABULAR.sub("", text)
    assert all(not line or line[0] == "%" for line in around.split("\n"))
    for alignment, body in _TABULAR.findall(text):
        top, *lines, bottom = body.split("\n")
        assert [top, bottom] == ["\\toprule", "\\bottomrule"]
        if lines[0].startswith(f"\\multicolumn{{{len(alignment)}}}{{l}}{{"):
            assert lines.pop(0).endswith("} \\\\")
            assert lines.pop(0) == "\\midrule"
        heads = lines.index("\\midrule")
        rows = []
        for line in [line for line in lines if line != "\\midrule"]:
            assert line.endswith(" \\\\")
            assert set(re.findall(r"\\([A-Za-z]+)", line)) <= COMMANDS
            bare = re.sub(r"\\[&%$#_{}]|\$[^$]+\$", "", line.removesuffix(" \\\\"))
            assert bare.count("{") == bare.count("}")
            assert not set(bare) & set("%#~^_<>$")
            rows.append(re.split(r" (?<!\\)& ", line.removesuffix(" \\\\")))
        assert {len(row) for row in rows} == {len(alignment)}
        head = [" ".join(cell).strip() for cell in zip(*rows[:heads], strict=True)]
        rows[:heads] = [head]
        tabulars.append(rows)
    assert text.count(NEEDS) == len(tabulars) > 0
    return tabulars


def compile_latex(text, folder):
    """Compile tabulars as wide tables of a paper with pdflatex; return its remarks on the width.

    Fail with the log if it finds an error.
    """
    program = shutil.which("pdflatex")
    assert program is not None
    around = "\\begin{table*}\\small\n", "\n\\end{table*}\\clearpage\n"
    tables = _TABULAR.sub(lambda tabular: tabular[0].join(around), text)
    page = (
        "\\documentclass[10pt,twocolumn]{article}\n\\usepackage{booktabs}\n\\textwidth=506pt\n"
        f"\\begin{{document}}\n{tables}\n\\end{{document}}\n"
    )
    (folder / "page.tex").write_text(page, encoding="utf-8")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "page.pdf").stat().st_size > 1000
    return [line for line in done.stdout.splitlines() if line.startswith("Overfull")]
