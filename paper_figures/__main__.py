"""Make every published table and figure: ``python -m paper_figures --out DIR``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lyra_opt.documents import write_text
from paper_figures.lyra import figure_5, figure_6, table_1

COMPARISONS = (table_1.compare, figure_5.compare, figure_6.compare)


def main() -> int:
    """Write one Markdown page for each table or figure, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m paper_figures", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/figures"), metavar="DIR")
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    for compare in COMPARISONS:
        comparison = compare()
        path = folder / f"{comparison.name}.md"
        write_text(path, comparison.as_markdown())
        print(f"{path}: {comparison.as_markdown().splitlines()[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
