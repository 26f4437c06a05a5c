"""The results of a scenario's replays as printed tables and data frames."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from lyra_opt.commands.output import print_line, print_table
from lyra_opt.core.errors import counted, one_line
from lyra_opt.experiments.frames import frame_of
from lyra_opt.experiments.records import ReplayRecord
from lyra_opt.experiments.simulation.measuring.bounds import MEAN_JCT
from lyra_opt.experiments.simulation.measuring.comparison import (
    cell_of,
    main_rows,
    rows_of,
    what_seeds_vary,
)
from lyra_opt.experiments.simulation.measuring.measures import MEASURES, shown_measures, variants_of
from lyra_opt.experiments.simulation.showing.figures import overview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pandas as pd
    from matplotlib.figure import Figure

    from lyra_opt.experiments.simulation.running.replays import Replays
    from lyra_opt.experiments.simulation.scenario.loading import Scenario

COSTS = ("wall_time_s", "cpu_time_s", "peak_memory_mib")
"""What a replay took of the machine that it ran on."""


def print_replays(replays: Replays) -> None:
    """Print schemes side by side, in the mean over seeds, and what is assumed of them."""
    for variant in variants_of(replays.runs):
        first, seeds = variant.runs[0], len(variant.seeds)
        where = f"{first.workload} on {first.cluster}"
        if seeds > 1:
            where = f"on {first.cluster}, means over {seeds} seeds (least – greatest)"
        title = [f"scenario {replays.study.name}", variant.name, where]
        print_line(f"{', '.join(filter(None, title))}:")
        print_table(
            ["", *variant.by_scheme],
            [
                [
                    measure.name,
                    *(
                        cell_of(measure.key, runs, measure.show).with_spread
                        for runs in variant.by_scheme.values()
                    ),
                ]
                for measure in shown_measures(variant.runs)
            ],
            right=1,
        )
        if varied := what_seeds_vary(variant.runs, replays.jobs).in_words:
            print_line(varied)
    readings = sorted(
        {each["bound_reading"] for run in replays.runs if MEAN_JCT in (each := run.figures or {})}
    )
    if readings:
        print_line(
            f"What is proved holds for what the reading {' or '.join(readings)} permits, see "
            '"lyra-opt bound --help".'
        )
    print("What is assumed:")
    for sentence in dict.fromkeys(each for run in replays.runs for each in run.assumptions):
        print_line(f"- {sentence}", indent="  ")


@dataclass(frozen=True, repr=False, eq=False)
class Runs:
    """What came of the replays of a scenario, as data frames and a picture.

    Printed, it is the main measures of the schemes side by side, and replays that failed.

    Parameters
    ----------
    replays
        The same, as rows of a store.
    scenario
        What was replayed, with the objects that were given.
    schemes
        Labels of the scenario's schemes, or names of others, that were replayed; empty for all of
        the scenario's.
    """

    replays: Replays
    scenario: Scenario
    schemes: tuple[str, ...] = ()

    @cached_property
    def summary(self) -> pd.DataFrame:
        """A row a replay, failed ones too, in the order of the scenario.

        Columns: ``scheme``, the axes of the scenario, ``seed`` and ``status``; the figures of
        ``simulate --json`` (docs/formats.md, "Simulation"), with units in their names:
        ``queue_mean_s``, ``jct_mean_s``, ``jct_p50_s`` (the median), ``jct_p95_s``,
        ``makespan_s``, ``preemptions``, shares such as ``gpu_usage``; ``wall_time_s``,
        ``cpu_time_s`` and ``peak_memory_mib`` of the replay itself; ``workload``, ``cluster`` and,
        of those that failed, ``message``. What a replay has not is NaN.
        """
        frame = frame_of(
            sorted((*self.replays.runs, *self.replays.failed), key=lambda run: run.position)
        )
        axes = [name for name in frame.attrs["axes"] if name != "scheme"]
        first = ["scheme", *axes, "seed", "status"]
        measured = [measure.key for measure in MEASURES if measure.key in frame]
        last = [*COSTS, "workload", "cluster", "message"]
        others = {*first, *measured, *last, *(field.name for field in fields(ReplayRecord))}
        figures = [name for name in frame.columns if name not in others]
        return frame[[*dict.fromkeys([*first, *measured, *figures, *last])]]

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """A row a job and replay that finished: what it asked for, and what became of it.

        Columns: ``scheme``, the axes and ``seed``; then those of ``jobs.csv.gz`` (docs/formats.md,
        "Results of scenarios"): ``job_id``, ``submit_s``, ``start_s``, ``completion_s``,
        ``queued_s``, ``jct_s``, ``preemptions`` and so on.
        """
        return self._of_all(self.replays.jobs)

    @cached_property
    def series(self) -> pd.DataFrame:
        """A row a moment and replay that finished: the cluster, in the mean until the next moment.

        Columns: ``scheme``, the axes and ``seed``; then those of ``series.csv.gz``
        (docs/formats.md, "Results of scenarios"): ``time_s``, ``queued_jobs``, ``running_jobs``,
        ``own_gpus_held`` and so on.
        """
        return self._of_all(self.replays.series)

    def plot(self) -> Figure:
        """Return a picture: how long jobs wait and take, and who holds GPUs over time.

        A row of panels for each variant of the scenario, of which the first few are drawn. Jobs are
        those of all seeds, GPUs those of the first seed.

        Raises
        ------
        InputError
            If no replay finished.
        """
        return overview(self.replays).figure()

    def __repr__(self) -> str:
        """Return the main measures, side by side, as text."""
        blocks = [f"{heading}\n{table.to_string()}" for heading, table in self._tables()]
        return "\n\n".join([*blocks, *self._failures()])

    def _repr_html_(self) -> str:
        blocks = [
            f"<p><b>{escape(heading)}</b></p>{table.to_html()}" for heading, table in self._tables()
        ]
        return "".join([*blocks, *(f"<p>{escape(line)}</p>" for line in self._failures())])

    def _failures(self) -> list[str]:
        return [f"failed: {run.key}: {one_line(run.message or '')}" for run in self.replays.failed]

    def _tables(self) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield a heading and a table, a row a measure and a column a scheme, for each variant."""
        import pandas as pd

        for variant in variants_of(self.replays.runs):
            seeds = len(variant.seeds)
            words = [self.replays.study.name, variant.name, f"on {variant.runs[0].cluster}"]
            words.append(
                f"means over {counted(seeds, 'seed')} (least – greatest)" if seeds > 1 else ""
            )
            lines = main_rows(rows_of(variant, self.replays.runs))
            table = pd.DataFrame(
                [[cell.with_spread for cell in line.cells] for line in lines],
                index=[f"{line.name} ({line.unit})" if line.unit else line.name for line in lines],
                columns=list(variant.by_scheme),
            )
            yield ", ".join(filter(None, words)), table

    def _of_all(self, table_of: Callable[[ReplayRecord], pd.DataFrame]) -> pd.DataFrame:
        import pandas as pd

        tables = []
        for run in self.replays.runs:
            table = table_of(run)
            keys = {"scheme": run.scheme, **run.point, "seed": run.seed}
            for place, (key, value) in enumerate(keys.items()):
                table.insert(place, key, value)
            tables.append(table)
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()
