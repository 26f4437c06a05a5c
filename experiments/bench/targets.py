"""Compare measured values with the speed targets in ``targets.csv``.

A target concerns the rows of a frame that its query selects, together or grouped by a column. The
frame of a benchmark module has one row per benchmark; the frame of a study has one row per run.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lyra_opt.core.gaps import relative_gap
from lyra_opt.core.numbers import count, three_digits
from lyra_opt.core.result import Number, Status
from lyra_opt.core.table import Column, Table, as_text
from lyra_opt.experiments.analysis import Analysis, counted_proof_time_s, log_ratio
from lyra_opt.experiments.compile_kernels import has_backend
from lyra_opt.experiments.proofs import variant_of
from lyra_opt.experiments.records import SolverRecord

SMALL_VARIABLE = "LYRA_OPT_BENCH_SMALL"
"""Environment variable that makes benchmarks use small sizes."""

NAMED = 5
"""Number of rows above a limit that a remark names."""

MS_PER_S = 1000

COLUMNS = (
    *("what", "runs", "median", "maximum", "statistic", "measured", "bound", "limit", "unit"),
    *("verdict", "remark"),
)
WORDS = {"what", "statistic", "bound", "unit", "verdict", "remark"}
"""Columns of the table of figures that contain words."""


def _largest_ratio(values: pd.Series, rows: pd.DataFrame) -> float:
    in_order = values.loc[rows["size"].sort_values().index].to_numpy()
    return float(max(in_order[1:] / in_order[:-1]))


def _total_excess_percent(values: pd.Series, rows: pd.DataFrame) -> float:
    optima = rows.optimum.where(values.notna())
    return float(100 * (values.where(optima.notna()).sum() / optima.sum() - 1))


STATISTICS: Mapping[str, Callable[[pd.Series, pd.DataFrame], float]] = {
    "median": lambda values, _: values.median(),
    "mean": lambda values, _: values.mean(),
    "maximum": lambda values, _: values.max(),
    "sum": lambda values, _: values.sum(),
    "95th percentile": lambda values, _: np.percentile(values, 95, method="inverted_cdf"),
    "geometric mean": lambda values, _: np.exp(np.log(values).mean()),
    "mean of the instances' best": lambda values, rows: values.groupby(rows.cell).min().mean(),
    "largest of the instances' best": lambda values, rows: values.groupby(rows.cell).min().max(),
    "largest sum of an instance": lambda values, rows: values.groupby(rows.cell).sum().max(),
    "largest ratio for twice the size": _largest_ratio,
    "excess of the sum over that of the optima": _total_excess_percent,
}
"""Functions that reduce the values of a target's rows to one number, by name."""


def read_targets() -> pd.DataFrame:
    """Return the targets as a data frame with one row per target."""
    text = pd.read_csv(Path(__file__).with_name("targets.csv"), dtype=str, keep_default_na=False)
    return text.assign(limit=pd.to_numeric(text.limit))


def figures_of(target: Any, measured: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the measured value and the verdict of a speed target, one per group of its rows.

    A target without a grouping column has one group.

    Parameters
    ----------
    target
        A row of `read_targets`.
    measured
        The frame of the target's part; without rows for the target, the figure says "not measured".
    """
    found = measured
    if target.rows and len(measured):
        found = measured.query(target.rows, engine="python")
    of_target = {name: getattr(target, name) for name in ("part", "what", "bound", "limit", "unit")}
    if found.empty:
        yield {**of_target, "runs": 0, "remark": "not measured"}
        return
    for name, rows in found.groupby(target.by, sort=False) if target.by else [("", found)]:
        values = rows[target.measure] * (MS_PER_S if target.unit == "ms" else 1)
        value = float(STATISTICS[target.statistic](values, rows))
        is_reached = value <= target.limit if target.bound == "at most" else value >= target.limit
        verdict = "reached" if is_reached else "" if np.isnan(value - target.limit) else "MISSED"
        names_rows = (target.statistic, target.bound) == ("maximum", "at most")
        above = values[values > target.limit] if names_rows else values[:0]
        named = [f"{rows.key[row]}: {each:.3g}" for row, each in above[:NAMED].items()]
        yield {
            **of_target,
            "what": f"{target.what}: {name}" if target.by else target.what,
            "runs": len(rows),
            "median": values.median(),
            "maximum": values.max(),
            "statistic": target.statistic,
            "measured": value,
            "verdict": verdict,
            "remark": f"{len(above)} above the limit: {', '.join(named)}" if named else "",
        }


def figures_table(figures: Sequence[Mapping[str, Any]]) -> Table:
    """Return the results of speed targets, from `figures_of`, as a table."""
    return Table(
        [
            Column(
                key=name,
                values=[each.get(name) for each in figures],
                show=as_text if name in WORDS else count if name == "runs" else three_digits,
            )
            for name in COLUMNS
        ],
        least=("remark", "median", "maximum", "runs"),
    )


def benchmark_frame(file: Path) -> pd.DataFrame:
    """Return the results of pytest-benchmark, one row per benchmark.

    ``name`` is the benchmark, ``id`` its parameters, and ``key`` both; ``median_s`` and ``max_s``
    are over its rounds. Parameters and remarks are further columns.
    """
    text = file.read_text()  # empty if every benchmark was skipped
    return pd.DataFrame(
        [
            {
                **(each["params"] or {}),
                **each["extra_info"],
                "key": each["name"].removeprefix("test_"),
                "name": each["name"].partition("[")[0].removeprefix("test_"),
                "id": each["param"] or "",
                "rounds": each["stats"]["rounds"],
                "median_s": each["stats"]["median"],
                "max_s": each["stats"]["max"],
            }
            for each in (json.loads(text)["benchmarks"] if text else ())
        ]
    )


def study_frame(analysis: Analysis) -> pd.DataFrame:
    """Return the runs of a study with columns for speed targets.

    Columns in addition to those of `Analysis.frame`: ``time_s`` is infinite for a run that died,
    and ``proof_s`` for a run without a proof. ``certified_s`` includes the time of the problem's
    own bound. ``gap_percent`` is the gap to the run's own bound, and ``bound_gap_percent`` the gap
    of that bound to the optimum. ``rival_ratio`` is the best reference's time to proof divided by
    the run's time. ``is_beaten`` says whether a reference proves the instance but the run does not.
    ``shape`` is the family with all parameters except the seed.
    """
    frame, optima = analysis.frame, analysis.proofs.optima
    counted_s = counted_proof_time_s(frame)
    is_proved = frame.status == Status.OPTIMAL
    rivals = frame.reference
    rival_s = frame.cell.map(counted_s[rivals].groupby(frame.cell[rivals]).min())
    return frame.assign(
        time_s=frame.wall_time_s.fillna(inf),
        proof_s=frame.wall_time_s.where(is_proved, inf),
        certified_s=frame.wall_time_s + frame.certify_time_s.fillna(0.0),
        gap_percent=[_gap(run, run.objective, run.dual_bound) for run in analysis.runs],
        bound_gap_percent=[
            -_gap(run, run.dual_bound, optima.get(run.cell)) for run in analysis.runs
        ],
        rival_ratio=np.exp(log_ratio(rival_s, counted_s)),
        is_beaten=~is_proved & frame.cell.isin(frame.cell[rivals & is_proved]),
        overshoot_s=(frame.wall_time_s - frame.time_limit_s).clip(lower=0.0),
        has_backend=[has_backend(run.problem, run.solver) for run in analysis.runs],
        shape=frame.cell.str.replace(r" seed=\d+", "", regex=True),
    )


def _gap(run: SolverRecord, value: Number | None, reference: Number | None) -> float:
    """Return how much worse `value` is than `reference`, in %; infinite if one is missing."""
    variant = variant_of(run)
    if value is None or reference is None or variant is None:
        return inf
    return 100 * relative_gap(value, reference, variant)
