"""Measure the figures of speed: ``python -m experiments.bench --out DIR``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from experiments.bench import reclaim
from experiments.environment import current_environment
from lyra_opt.documents import write_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from experiments.bench.timing import Figure


def main() -> int:
    """Measure, print each figure as it comes, write ``bench.md``; 1 if a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m experiments.bench", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("results/bench"), metavar="DIR")
    folder: Path = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    figures = []
    for figure in reclaim.figures():
        figures.append(figure)
        print(_row(figure), flush=True)
    write_text(folder / "bench.md", _page(figures))
    return 1 if any(figure.verdict == "MISSED" for figure in figures) else 0


def _page(figures: Sequence[Figure]) -> str:
    machine = current_environment()
    lines = [
        "# Figures of speed",
        "",
        f"Measured on {machine.cpu}, {machine.cores} cores, Python {machine.versions['python']}. "
        "Times compare only within this page.",
        "",
        "| what | runs | median, ms | maximum, ms | target, ms | | remark |",
        "| --- | ---: | ---: | ---: | ---: | --- | --- |",
        *map(_row, figures),
    ]
    return "\n".join(lines) + "\n"


def _row(figure: Figure) -> str:
    target = "" if figure.target_s is None else f"{1000 * figure.target_s:g}"
    return (
        f"| {figure.what} | {figure.runs} | {1000 * figure.median_s:.2f} "
        f"| {1000 * figure.maximum_s:.2f} | {target} | {figure.verdict} | {figure.remark} |"
    )


if __name__ == "__main__":
    sys.exit(main())
