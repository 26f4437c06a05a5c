"""A reader of the LaTeX that tables write, which accepts nothing but such tables."""

import re
import shutil
import subprocess

COMMANDS = {
    *("infty", "leq", "geq", "times", "cdot", "rightarrow"),
    *("textbackslash", "textasciitilde", "textasciicircum", "mu", "ldots", "allowbreak", "textbf"),
}
"""The commands of letters that tables use; others have one sign."""

TEXT_WIDTH = 345
"""The width of a line of the class article in points."""

NEEDS = "% Needs \\usepackage{"
_COLUMN = r"[lr]|>\{\\ragged(?:left|right)\\arraybackslash\}p\{0\.\d+\\linewidth\}"
_TABULAR = re.compile(
    rf"\\begin\{{tabular\}}\{{@\{{\}}((?:{_COLUMN})+)@\{{\}}\}}\n(.*?)\n\\end\{{tabular\}}",
    re.DOTALL,
)


def rows_of_latex(text):
    """Return the cells of each tabular of a text; fail on anything that LaTeX would not take."""
    tabulars = []
    assert text.isprintable() or set(text) - {"\n"} == {sign for sign in text if sign.isprintable()}
    around = _TABULAR.sub("", text)
    floats = re.findall(r"^\\(begin|end)\{table\*\}.*|^\\(caption)\{.*\}$", around, re.MULTILINE)
    assert len(floats) % 3 == 0
    around = re.sub(r"^\\(begin\{table|end\{table|caption).*$", "", around, flags=re.MULTILINE)
    assert all(not line or line[0] == "%" or line == r"\bigskip" for line in around.split("\n"))
    for alignment, body in _TABULAR.findall(text):
        columns = len(re.findall(_COLUMN, alignment))
        top, *lines, bottom = body.split("\n")
        assert [top, bottom] == ["\\toprule", "\\bottomrule"]
        spanned = f"\\multicolumn{{{columns}}}{{@{{}}l@{{}}}}{{"
        is_noted = lines[0].startswith(spanned)
        lines = [line for line in lines if not line.startswith(spanned)]
        lines = [line for line in lines[is_noted:] if line != "\\addlinespace"]
        heads = lines.index("\\midrule")
        rows = []
        for line in [line for line in lines if line != "\\midrule"]:
            assert line.endswith(" \\\\")
            assert set(re.findall(r"\\([A-Za-z]+)", line)) <= COMMANDS
            bare = re.sub(r"\\[&%$#_{}]|\$[^$]+\$", "", line.removesuffix(" \\\\"))
            assert bare.count("{") == bare.count("}")
            assert not set(bare) & set("%#^_<>$")
            rows.append(re.split(r" (?<!\\)& ", line.removesuffix(" \\\\")))
        assert {len(row) for row in rows} == {columns}
        head = [" ".join(cell).strip() for cell in zip(*rows[:heads], strict=True)]
        rows[:heads] = [head]
        tabulars.append(rows)
    assert text.count(NEEDS) == len(tabulars) > 0
    return tabulars


def compile_latex(text, folder):
    """Compile tabulars with pdflatex; return those that are wider than a line, with their widths.

    Fail with the log if it finds an error.
    """
    program = shutil.which("pdflatex")
    assert program is not None
    tabulars = [found[0] for found in _TABULAR.finditer(text)]
    boxes = "\n".join(
        f"\\sbox\\measured{{{tabular}}}\\typeout{{width=\\the\\wd\\measured}}\n\\usebox\\measured\\clearpage"
        for tabular in tabulars
    )
    page = (
        "\\documentclass{article}\n\\usepackage{array,booktabs}\n\\newsavebox\\measured\n"
        f"\\begin{{document}}\n{boxes}\n\\end{{document}}\n"
    )
    (folder / "page.tex").write_text(page, encoding="utf-8")
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (folder / "page.pdf").stat().st_size > 1000
    widths = [float(each) for each in re.findall(r"width=([\d.]+)pt", done.stdout)]
    pairs = zip(tabulars, widths, strict=True)
    return [(width, tabular) for tabular, width in pairs if width > TEXT_WIDTH]
