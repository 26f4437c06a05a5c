"""Measure the figures of speed: ``python -m lyra_opt.experiments.bench --out DIR``."""

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
"""Modules of this folder that pytest runs; all other parts are studies that come along."""

DESCRIPTION = f"""\
Measure the figures of speed, part by part, and write into DIR, after each part anew, bench.md (all
tables) and figures.csv: each target of experiments/bench/targets.csv with what was measured.

Benchmarks: {", ".join(BENCHMARKS)}. pytest-benchmark times them into DIR/PART.json; to
run some of them alone: pytest experiments/bench/simulation.py -k rounds

Studies: {", ".join(PARTS[len(BENCHMARKS) :])}.
Each is run as "lyra-opt study PART" does, in one process, the solvers in turn on each instance, and
each run is stored in DIR/PART as it completes. DIR/PART also holds the report, and for studies with
a headline speed_by_*.csv, the ratios of the solvers' times.

Exit code: 0; 1 if a target was missed, a run failed or results contradict one another; 2 for bad
usage; 130 after Ctrl-C.

examples:
  python -m lyra_opt.experiments.bench --only reclaim-speed --seeds 5 --time-limit 60 --out long
  python -m lyra_opt.experiments.bench --only decisions --only machines --small
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the figures of each part, write the page; 1 if something is not as meant."""
    parser = argparse.ArgumentParser(
        prog="python -m lyra_opt.experiments.bench",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = parser.add_argument
    option("--out", type=Path, default=Path("results/bench"), metavar="DIR")
    option("--only", action="append", choices=PARTS, help="a part; may be repeated")
    option("--small", action="store_true", help="small benchmarks, once, to see that they run")
    option("--seeds", type=integer_from(1), metavar="N", help="of studies, in place of theirs")
    seconds = above_zero("seconds")
    option("--time-limit", type=seconds, metavar="S", help="of studies, in place of theirs")
    option("--resume", action="store_true", help="keep the runs of studies that DIR holds")
    options = parser.parse_args(arguments)
    bench = Bench(options)
    try:
        for part in options.only or PARTS:
            bench.measure(part)
    except UserError as error:
        parser.exit(2, f"{parser.prog}: error: {one_line(str(error))}\n")
    except KeyboardInterrupt:
        print(f"{options.out / PAGE}: what was measured so far", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"{options.out / PAGE}: all tables")
    return int(bench.has_failed)


class Bench:
    """The options of the command line, and what has been measured so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._folder: Path = options.out
        self._figures: list[dict[str, Any]] = []
        self._sections: list[str] = []
        self.has_failed = False

    def measure(self, part: str) -> None:
        """Measure a part, print its figures, and write the page with them."""
        self._folder.mkdir(parents=True, exist_ok=True)
        measured = self._benchmarks(part) if part in BENCHMARKS else self._study(part)
        of_part = TARGETS[TARGETS.part == part].itertuples()
        new = [figure for target in of_part for figure in figures_of(target, measured)]
        figures_table(new).print()
        self.has_failed |= any(figure.get("verdict") == "MISSED" for figure in new)
        self._figures += new
        page = [_head(), figures_table(self._figures).markdown(), *self._sections]
        write_text(self._folder / PAGE, "\n".join(page))
        write_text(self._folder / "figures.csv", frame_text(pd.DataFrame(self._figures)))

    def _benchmarks(self, part: str) -> pd.DataFrame:
        """Have pytest run the benchmarks of a module; one without its trace is skipped."""
        if find_spec("pytest_benchmark") is None:
            raise UserError("benchmarks need pytest-benchmark, pip install 'lyra-opt[dev]'")
        file = self._folder / f"{part}.json"
        module = str(Path(__file__).with_name(f"{part}.py"))
        command = [sys.executable, "-m", "pytest", module, f"--benchmark-json={file}", "--quiet"]
        command += ["-p", "no:cacheprovider", "-W", "ignore", "-o", "timeout=0"]
        sizes = {SMALL_VARIABLE: "1"} if self._options.small else {}
        if subprocess.run(command, env=os.environ | sizes, check=False).returncode:  # noqa: S603
            self._fail(f"{part}: a benchmark failed: see the output of pytest.")
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
                f"{part}: {len(report.contradictions)} contradictions between results, and failed "
                "runs if any: see its report. Do not rely on its numbers."
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
        f"# Figures of speed\n\nMeasured on {machine.cpu}, {machine.cores} cores, "
        f"Python {machine.versions['python']}. Times compare only within this page.\n"
    )


def _speed_tables(analysis: Analysis, yardstick: str, folder: Path) -> Iterator[str]:
    """Write the tables of ratios of a study, and return what the page says of it."""
    yield (
        f"## {folder.name}\n\n"
        f"{analysis.frame.cell.nunique()} instances, each solved by the solvers in turn, in one "
        "process on one thread. Ratios are geometric means of the time over that of "
        f"`{yardstick}` on the same instance; in those of times to proof a run without a proof "
        "counts as the limit. A proof of a heuristic is the problem's own bound, whose time is "
        "included there.\n\n"
        f"![Instances proved over time]({folder.name}/{PLOTS_FOLDER}/cactus.svg)\n"
    )
    for name, columns in {"group": (GROUP,), "size": (GROUP, ASKED_SIZE)}.items():
        rows = analysis.speed_table(yardstick, *columns)
        write_text(folder / f"speed_by_{name}.csv", frame_text(rows))
        yield f"### By {name}\n\n{speed_table(rows, yardstick).markdown()}"


if __name__ == "__main__":
    sys.exit(main())
