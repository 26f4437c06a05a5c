"""Run all speed measurements: ``python -m lyra_opt.experiments.bench --out DIR``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from lyra_opt.commands.arguments import above_zero, integer_from
from lyra_opt.commands.output import print_table
from lyra_opt.core.csv_text import frame_text
from lyra_opt.core.documents import write_text
from lyra_opt.core.errors import UserError, one_line
from lyra_opt.experiments.analysis import ASKED_SIZE, GROUP
from lyra_opt.experiments.bench.targets import (
    SMALL_VARIABLE,
    benchmark_frame,
    figures_of,
    figures_table,
    read_targets,
    study_frame,
)
from lyra_opt.experiments.command import STUDIES
from lyra_opt.experiments.executor import EXIT_INTERRUPTED
from lyra_opt.experiments.page import PLOTS_FOLDER
from lyra_opt.experiments.pool import LocalProcesses
from lyra_opt.experiments.records import current_environment
from lyra_opt.experiments.report import make_report, write_files
from lyra_opt.experiments.runner import run_study
from lyra_opt.experiments.store import STORE_FILE
from lyra_opt.experiments.study import read_study
from lyra_opt.experiments.tables import speed_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lyra_opt.experiments.analysis import Analysis

PAGE = "bench.md"

TARGETS = read_targets()
PARTS = list(dict.fromkeys(TARGETS.part))
BENCHMARKS = [part for part in PARTS if Path(__file__).with_name(f"{part}.py").is_file()]
"""Modules of this folder that pytest runs; all other parts are bundled studies."""

DESCRIPTION = f"""\
Measure speed part by part. After each part, write bench.md (all tables) and figures.csv (each
target of experiments/bench/targets.csv with the measured value) into DIR.

Benchmarks: {", ".join(BENCHMARKS)}. pytest-benchmark writes their times into DIR/PART.json. To
run only some of them: pytest experiments/bench/simulation.py -k rounds

Studies: {", ".join(PARTS[len(BENCHMARKS) :])}.
Each study runs in one process, as with "lyra-opt study PART"; solvers take turns on each instance.
Runs are stored in DIR/PART. DIR/PART also gets the report and, for studies with a headline, the
ratios of solver times in speed_by_*.csv.

Exit code: 0; 1 if a target was missed, a run failed or results contradict one another; 2 for bad
usage; 130 after Ctrl-C.

examples:
  python -m lyra_opt.experiments.bench --only reclaim-speed --seeds 5 --time-limit 60 --out long
  python -m lyra_opt.experiments.bench --only decisions --only machines --small
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all parts, print their figures and write the page; return 1 if a part failed."""
    parser = argparse.ArgumentParser(
        prog="python -m lyra_opt.experiments.bench",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option("--out", type=Path, default=Path("results/bench"), metavar="DIR")
    option("--only", action="append", choices=PARTS, help="measure only this part; may be repeated")
    option("--small", action="store_true", help="run small benchmarks once, as a smoke test")
    option("--seeds", type=integer_from(1), metavar="N", help="number of seeds of each study")
    seconds = above_zero("seconds")
    option(
        "--time-limit",
        type=seconds,
        metavar="S",
        help="time limit of each run of a study, in seconds",
    )
    option(
        "--resume", action="store_true", help="keep runs of studies that are already stored in DIR"
    )
    options = parser.parse_args(arguments)
    bench = Bench(options)
    try:
        for part in options.only or PARTS:
            bench.measure(part)
    except UserError as error:
        parser.exit(2, f"{parser.prog}: error: {one_line(str(error))}\n")
    except KeyboardInterrupt:
        print(f"{options.out / PAGE}: results measured so far", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"{options.out / PAGE}: all tables")
    return int(bench.has_failed)


class Bench:
    """A run of the speed measurements: its options, and the results so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder: Path = options.out
        self._figures: list[dict[str, Any]] = []
        self._sections: list[str] = []
        self.has_failed = False

    def measure(self, part: str) -> None:
        """Run a benchmark module or a study, print its results, and write all results so far."""
        self._folder.mkdir(parents=True, exist_ok=True)
        measured = self._benchmarks(part) if part in BENCHMARKS else self._study(part)
        of_part = TARGETS[TARGETS.part == part].itertuples()
        new = [figure for target in of_part for figure in figures_of(target, measured)]
        print_table(figures_table(new), None)
        self.has_failed |= any(figure.get("verdict") == "MISSED" for figure in new)
        self._figures += new
        page = [_head(), figures_table(self._figures).text("markdown"), *self._sections]
        write_text(self._folder / PAGE, "\n".join(page))
        write_text(self._folder / "figures.csv", frame_text(pd.DataFrame(self._figures)))

    def _benchmarks(self, part: str) -> pd.DataFrame:
        """Run the benchmarks of a module with pytest; skip a benchmark if its trace is missing."""
        if find_spec("pytest_benchmark") is None:
            raise UserError("benchmarks require pytest-benchmark: pip install 'lyra-opt[dev]'")
        file = self._folder / f"{part}.json"
        module = str(Path(__file__).with_name(f"{part}.py"))
        command = [sys.executable, "-m", "pytest", module, f"--benchmark-json={file}", "--quiet"]
        command += ["-p", "no:cacheprovider", "-W", "ignore", "-o", "timeout=0"]
        sizes = {SMALL_VARIABLE: "1"} if self._options.small else {}
        if subprocess.run(command, env=os.environ | sizes, check=False).returncode:  # noqa: S603
            self._fail(f"{part}: a benchmark failed; see the output of pytest.")
        return benchmark_frame(file)

    def _study(self, part: str) -> pd.DataFrame:
        """Run a study in one process, write its report, and return its runs."""
        folder = self._folder / part
        asked = {"seeds": self._options.seeds, "time_limit_s": self._options.time_limit}
        changes = {key: value for key, value in asked.items() if value is not None}
        study = read_study(STUDIES / f"{part}.toml", changes=changes)
        if not self._options.resume:
            (folder / STORE_FILE).unlink(missing_ok=True)
        status = run_study(study, folder, engine=LocalProcesses(1), resume=True)
        if status == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        report = make_report(folder)
        write_files(report, folder)
        if status:
            self._fail(
                f"{part}: runs failed, or results contradict one another "
                f"({len(report.contradictions)} contradictions between results); see the report, "
                "and do not rely on these numbers."
            )
        if study.headline:
            self._sections += _speed_tables(report.analysis, study.headline[0], folder)
        return study_frame(report.analysis)

    def _fail(self, message: str) -> None:
        self.has_failed = True
        self._sections.append(f"**{message}**\n")


def _head() -> str:
    machine = current_environment()
    return (
        f"# Speed\n\nMeasured on {machine.cpu}, {machine.cores} cores, "
        f"Python {machine.versions['python']}. Times are comparable only within this page.\n"
    )


def _speed_tables(analysis: Analysis, yardstick: str, folder: Path) -> Iterator[str]:
    """Write the tables of time ratios of a study; yield the sections of the page on them."""
    yield (
        f"## {folder.name}\n\n"
        f"Solvers take turns on each of {analysis.frame.cell.nunique()} instances, in one process "
        "on one thread. Ratios are geometric means of the time divided by the time of "
        f"`{yardstick}` on the same instance. In ratios of times to proof, a run without a proof "
        "counts with its limit. The proof of a heuristic is the problem's own bound, and its time "
        "is included.\n\n"
        f"![Instances proved over time]({folder.name}/{PLOTS_FOLDER}/cactus.svg)\n"
    )
    for name, columns in {"group": (GROUP,), "size": (GROUP, ASKED_SIZE)}.items():
        rows = analysis.speed_table(yardstick, *columns)
        write_text(folder / f"speed_by_{name}.csv", frame_text(rows))
        yield f"### By {name}\n\n{speed_table(rows, yardstick).text('markdown')}"


if __name__ == "__main__":
    sys.exit(main())
