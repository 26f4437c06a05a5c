"""Measure the figures of speed: ``python -m lyra_opt.experiments.bench --out DIR``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lyra_opt.commands.arguments import above_zero, integer_from
from lyra_opt.core.csv_text import frame_text
from lyra_opt.core.documents import write_text
from lyra_opt.core.errors import UserError, one_line
from lyra_opt.experiments.analysis import ASKED_SIZE, FAMILY, GROUP
from lyra_opt.experiments.bench import (
    allocation,
    cluster_bounds,
    heterogeneous,
    heterogeneous_decisions,
    heterogeneous_shares,
    network,
    overshoot,
    reclaim,
    replays,
)
from lyra_opt.experiments.bench.studies import YARDSTICK, comparison_figures, exact_figures
from lyra_opt.experiments.bench.timing import figures_table
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
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lyra_opt.experiments.analysis import Analysis
    from lyra_opt.experiments.bench.timing import Figure

COMPARISON = Path(__file__).parent / "reclaim-speed.toml"
EXACT = Path(__file__).parent / "reclaim-exact.toml"
DEFAULT_SEEDS = 5
PAGE = "bench.md"

DESCRIPTION = """\
Measure the figures of speed, part by part, and write into DIR, after each figure anew, bench.md
(all tables) and figures.csv. The parts:

  greedy      lyra-greedy and the bounds, in this process
  fast        time and certified gap of fast, in this process
  processes   the command line as a process, and compiling
  allocation  knapsacks, schedules, proofs and certified gaps of elastic allocation, in this
              process
  offline     proofs of schedules in rounds on unlike GPUs, in this process
  shares      shares of time on unlike GPUs: max-min fairness and the like, in this process
  bounds      what is proved of whole replays: certified gaps, CPU time and memory
  simulation  jobs per CPU second of the simulated cluster, its growth and its memory
  decisions   one decision of the round policies on unlike GPUs with 2,048 jobs
  rounds      480 jobs on unlike GPUs, simulated in rounds under each scheme
  network     decisions, proofs and simulations of gangs in a network of tiers
  overshoot   by how much each solver exceeds a limit of 0.3 s, at most 0.2 s if it is our own
              and 1 s if it runs a backend; up to 50,000 jobs or servers, seven minutes
  machines    runs through a scheduler: two workers, and a thousand simulated ones
  exact       experiments/bench/reclaim-exact.toml, and exact within a second
  comparison  experiments/bench/reclaim-speed.toml: heuristics, exact and general solvers, in
              turn on the same instances in one process

The last two are studies in DIR/exact and DIR/comparison: each run is stored as it completes, and
--resume goes on after an interruption. Their folders hold the report of the study, and that of
the comparison speed_by_*.csv, the ratios to the times of exact, too.

Exit code: 0; 1 if a target was missed, a run failed or results contradict one another; 2 for bad
usage; 130 after Ctrl-C.
"""

EXAMPLES = """\
examples:
  python -m lyra_opt.experiments.bench --only comparison --seeds 5 --time-limit 60 --out long
  python -m lyra_opt.experiments.bench --only fast --only exact
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print each figure as it comes, write the page; 1 if something is not as meant."""
    parser = argparse.ArgumentParser(
        prog="python -m lyra_opt.experiments.bench",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.add_argument("--out", type=Path, default=Path("results/bench"), metavar="DIR")
    parser.add_argument(
        "--only", action="append", choices=list(PARTS), help="a part; may be given more than once"
    )
    parser.add_argument(
        "--seeds",
        type=integer_from(1),
        metavar="N",
        help=f"seeds of each kind of instance (default: {DEFAULT_SEEDS}, comparison: 1)",
    )
    parser.add_argument(
        "--time-limit",
        type=above_zero("seconds"),
        metavar="S",
        help="seconds for each run of the comparison (default: 10)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="keep the runs that DIR/exact and DIR/comparison hold; without it they are replaced",
    )
    options = parser.parse_args(arguments)
    bench = Bench(options)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for name in options.only or PARTS:
            for figure in PARTS[name](bench):
                bench.add(figure)
            bench.write_page()
    except UserError as error:
        parser.exit(2, f"{parser.prog}: error: {one_line(str(error))}\n")
    except KeyboardInterrupt:
        bench.write_page()
        print(f"{options.out / PAGE}: what was measured so far", file=sys.stderr)
        return EXIT_INTERRUPTED
    print(f"{options.out / PAGE}: all tables")
    return bench.exit_code()


class Bench:
    """What was asked for, and what has been measured so far.

    Parameters
    ----------
    options
        The parsed command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder: Path = options.out
        self.seeds: int = options.seeds or DEFAULT_SEEDS
        self._comparison_changes: dict[str, int | float] = {
            key: value
            for key, value in (("seeds", options.seeds), ("time_limit_s", options.time_limit))
            if value is not None
        }
        self._resume: bool = options.resume
        self._figures: list[Figure] = []
        self._sections: list[str] = []
        self._study_failed = False

    def add(self, figure: Figure) -> None:
        """Print a figure, and write the page and the table with it."""
        self._figures.append(figure)
        print(" | ".join(figures_table([figure]).rows()[0]), flush=True)
        write_text(
            self.folder / "figures.csv",
            frame_text(pd.DataFrame(map(asdict, self._figures), dtype=object)),
        )
        self.write_page()

    def exit_code(self) -> int:
        """Return 1 if a target was missed or a study had failures, else 0."""
        missed = any(figure.verdict == "MISSED" for figure in self._figures)
        return 1 if missed or self._study_failed else 0

    def exact(self) -> Iterator[Figure]:
        """Run the study of `exact`, then measure what it certifies within a second."""
        yield from exact_figures(self._run(EXACT, "exact", {"seeds": self.seeds}).frame)
        yield from reclaim.limited_figures(self.seeds)

    def comparison(self) -> Iterator[Figure]:
        """Run the comparison, and write its tables of ratios."""
        analysis = self._run(COMPARISON, "comparison", self._comparison_changes)
        self._sections.append(_comparison_in_words(analysis.frame))
        by = {
            "group": (GROUP,),
            "size": (GROUP, ASKED_SIZE),
            "family_and_size": (FAMILY, analysis.size_name),
        }
        for name, columns in by.items():
            rows = analysis.speed_table(YARDSTICK, *columns)
            write_text(self.folder / "comparison" / f"speed_by_{name}.csv", frame_text(rows))
            table = speed_table(rows, YARDSTICK)
            if name == "size":
                table.print()
            title = f"By {name}".replace("_", " ")
            self._sections.append(f"### {title}\n\n{table.markdown()}")
        yield from comparison_figures(analysis.frame)

    def _run(self, path: Path, name: str, changes: Mapping[str, int | float]) -> Analysis:
        """Run a study in one process, write its report, and return its analysis."""
        folder = self.folder / name
        study = read_study(path, changes=changes)
        if not self._resume:
            (folder / STORE_FILE).unlink(missing_ok=True)
        status = run_study(study, folder, engine=LocalProcesses(1), resume=True)
        if status == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        report = make_report(folder)
        write_files(report, folder)
        if status:
            self._study_failed = True
            self._sections.append(
                f"**{name}: {len(report.contradictions)} contradictions between results, and "
                "failed runs if any: see its report. Do not rely on its numbers.**\n"
            )
        return report.analysis

    def write_page(self) -> None:
        """Write all that has been measured so far."""
        machine = current_environment()
        head = (
            "# Figures of speed\n\n"
            f"Measured on {machine.cpu}, {machine.cores} cores, "
            f"Python {machine.versions['python']}. Times compare only within this page.\n"
        )
        table = figures_table(self._figures).markdown()
        write_text(self.folder / PAGE, "\n".join([head, table, *self._sections]))


def _comparison_in_words(runs: pd.DataFrame) -> str:
    limits = sorted(runs.time_limit_s.dropna().unique())
    shown = ", ".join(f"{limit:g}" for limit in limits)
    instances = runs.cell.nunique()
    return (
        "## Comparison\n\n"
        f"{instances} instances, each solved by all solvers in turn, in one process on one thread, "
        f"at most {shown} s each. Ratios are geometric means of the time over that of "
        f"`{YARDSTICK}` on the same instance; in those of times to proof a run without a proof "
        "counts as the limit. A proof of a heuristic is the problem's own bound, whose time is "
        "included there.\n\n"
        f"![Instances proved over time](comparison/{PLOTS_FOLDER}/cactus.svg)\n"
    )


def _machine_figures() -> Iterator[Figure]:
    from lyra_opt.experiments.bench.machines import machine_figures  # needs the extra `cluster`

    return machine_figures()


PARTS: Mapping[str, Callable[[Bench], Iterator[Figure]]] = {
    "greedy": lambda _: reclaim.greedy_figures(),
    "fast": lambda bench: reclaim.fast_figures(bench.seeds),
    "processes": lambda _: reclaim.process_figures(),
    "allocation": lambda bench: allocation.allocation_figures(bench.seeds),
    "offline": lambda bench: heterogeneous.offline_figures(bench.seeds),
    "shares": lambda bench: heterogeneous_shares.share_figures(bench.seeds),
    "bounds": lambda _: cluster_bounds.cluster_bound_figures(),
    "simulation": lambda _: replays.simulation_figures(),
    "decisions": lambda bench: heterogeneous_decisions.decision_figures(bench.seeds),
    "rounds": lambda _: replays.round_figures(),
    "network": lambda bench: network.network_figures(bench.seeds),
    "overshoot": lambda _: overshoot.overshoot_figures(),
    "machines": lambda _: _machine_figures(),
    "exact": Bench.exact,
    "comparison": Bench.comparison,
}


if __name__ == "__main__":
    sys.exit(main())
