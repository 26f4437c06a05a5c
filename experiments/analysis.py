"""Compute the tables of a study report (gaps, proofs and times of solvers) from stored runs."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Status
from lyra_opt.experiments.frames import frame_of, in_order
from lyra_opt.experiments.proofs import Proofs, sense_of
from lyra_opt.experiments.records import AxisValue, SolverRecord
from lyra_opt.experiments.study_cells import FILE, LIBRARY

FAMILY, GROUP = "family_label", "group_label"
"""Columns of `Analysis.frame` by which tables group runs, in addition to size and axes."""

PROVED = (Status.OPTIMAL, Status.INFEASIBLE)
"""The statuses of runs that end with a proof."""

SHORTEST_TIME_S = 1e-6
"""Shorter times count as this resolution of the clock, so that every ratio is finite."""


class Analysis:
    """The stored runs of a study, with the proved optimum of each instance.

    Parameters
    ----------
    runs
        All stored runs, at least one, in the order of the study.
    """

    def __init__(self, runs: Sequence[SolverRecord]) -> None:
        self.runs = list(runs)
        self.proofs = Proofs(runs)
        self.problems = list(dict.fromkeys(run.problem for run in runs))
        sizes = dict.fromkeys(find_problem(name).size_name for name in self.problems)
        self.size_name = " or ".join(sizes)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """A data frame with one row per run of the study, including its gaps and proof times.

        The other columns are those of `lyra_opt.experiments.frames.load_study`.

        ``family_label`` and ``group_label`` are names in words. ``sense`` is "min" or "max", or
        None if no instance was generated. ``excess_percent`` is NaN if the optimum is not proved or
        the run has no solution; ``largest_excess_percent``, relative to the best bound, is NaN only
        without a solution. ``time_s`` is the solver's time in runs that did not fail.
        ``proof_time_s`` also includes the time of the bound, and is given only for proved results.
        """
        frame = frame_of(self.runs)
        # If a worker died, its run has no size; other runs on the same instance give the size.
        frame["size"] = frame.groupby("cell")["size"].transform("first")
        frame[self.size_name] = (
            frame["size"].astype("Int64").mask(frame.family.isin([FILE, LIBRARY]))
        )
        ended = ~frame.status.isin([Status.ERROR, Status.UNSUPPORTED])
        proof_time_s = frame.wall_time_s + frame.certify_time_s.fillna(0.0)
        return frame.assign(
            family_label=[family_label(run) for run in self.runs],
            group_label=[group_label(run) for run in self.runs],
            sense=[sense_of(run) for run in self.runs],
            is_answered=ended,
            has_optimum=frame.cell.isin(self.proofs.optima.keys()),
            **self.proofs.columns(),
            time_s=frame.wall_time_s.where(ended),
            proof_time_s=proof_time_s.where(frame.status.isin(PROVED)),
        )

    @cached_property
    def axes(self) -> dict[str, str]:
        """The names of the study's axes except the instance size, by column of `frame`."""
        names = dict.fromkeys(name for run in self.runs for name in run.axes)
        columns = dict(zip(self.frame.attrs["axes"], names, strict=True))
        return {column: name for column, name in columns.items() if name != self.size_name}

    @cached_property
    def configurations(self) -> list[str]:
        """All configurations in the order of the study, references last."""
        references = self.frame.configuration[self.frame.reference].unique()
        return [*self.heuristics, *references]

    @cached_property
    def heuristics(self) -> list[str]:
        """The configurations that are not references, in the order of the study."""
        return list(self.frame.configuration[~self.frame.reference].unique())

    def gap_table(self) -> pd.DataFrame:
        """Return a table of gaps by family, size, combination of axis values, and solver.

        Instances from files or from the library have any size, so their size is not a column. The
        other columns are those of `summaries`.
        """
        return self.summaries(FAMILY, self.size_name, *self.axes)

    def family_table(self) -> pd.DataFrame:
        """Return a table of gaps and times with a row for each instance family and solver."""
        return self.summaries(FAMILY)

    def sums_table(self) -> pd.DataFrame:
        """Return a table of gaps and times with a row for each group of families and solver."""
        return self.summaries(GROUP)

    def overall_table(self) -> pd.DataFrame:
        """Return a table of gaps and times by family, followed by rows for groups of families."""
        return pd.concat([self.family_table(), self.sums_table()], ignore_index=True)

    def summaries(self, *by: str) -> pd.DataFrame:
        """Return statistics of gaps, proofs and times by solver and by value of the columns `by`.

        ``instances`` = ``compared`` + ``unproved`` + ``infeasible`` + ``without_solution`` +
        ``failed`` + ``unsupported``: no instance is dropped. A mean over nothing is NaN. The
        columns are:

        family, ..., configuration
            The instances, and the solver that ran on them.
        instances
            Number of runs of the row.
        compared
            Runs with a solution, on instances with a proved optimum.
        unproved
            Runs with a solution, on instances without a proved optimum.
        infeasible
            Runs that prove that the instance has no solution.
        without_solution, failed, unsupported
            Runs that ended without a solution, failed, or refused the instance.
        infinite
            Runs among ``compared`` that miss an optimum of 0. Their excess is infinite: they count
            as not optimal, and the mean leaves them out.
        several_terms
            Runs among ``compared`` that miss the optimum of an objective with several terms. They
            have no excess in percent, and count like ``infinite``.
        mean_excess_percent
            Mean of |objective - optimum| / |optimum|, over ``compared`` without ``infinite`` and
            ``several_terms``.
        max_excess_percent
            Maximum of |objective - optimum| / |optimum| over ``compared``; infinite if one of them
            is infinite.
        total_excess_percent
            The ratio |sum of the objectives - sum of the optima| / |sum of the optima|, over
            ``compared`` with one term. Small optima have little weight in it, and optima of 0
            count.
        mean_excess_at_most_percent
            Upper bound on the mean excess over ``compared`` and ``unproved``: the best dual bound
            of an instance replaces an unproved optimum.
        optimal_percent
            Share of instances with a proved optimum on which the objective is optimal. Runs without
            a solution and failed runs count as not optimal; unsupported runs do not count.
        proved_percent
            Share of all runs except unsupported ones in which the run's own bound proves its
            solution optimal, or the run proves that no solution exists.
        median_time_ms, max_time_ms
            Median and maximum of the solver's wall time, over all runs that did not fail.
        median_certify_time_ms
            Median time of the problem's own bound, over the runs that computed it.
        """
        found = self.grouped(self._counted(), *by).agg(
            instances=("cell", "size"),
            compared=("excess_percent", "count"),
            unproved=("unproved", "sum"),
            infeasible=("infeasible", "sum"),
            without_solution=("without_solution", "sum"),
            failed=("failed", "sum"),
            unsupported=("unsupported", "sum"),
            infinite=("infinite", "sum"),
            several_terms=("several_terms", "sum"),
            mean_excess_percent=("finite", "mean"),
            max_excess_percent=("excess_percent", "max"),
            total_excess_percent=("paid", "sum"),
            least=("least", "sum"),
            summed=("summed", "sum"),
            mean_excess_at_most_percent=("at_most", "mean"),
            optimal_percent=("optimal", "sum"),
            has_known=("has_known", "sum"),
            proved_percent=("proved", "sum"),
            supported=("supported", "sum"),
            median_time_ms=("time_ms", "median"),
            max_time_ms=("time_ms", "max"),
            median_certify_time_ms=("certify_ms", "median"),
        )
        missing = (found.total_excess_percent - found.least).abs()
        total = (100 * missing / found.least.abs()).mask(missing == 0, 0.0)
        found["total_excess_percent"] = total.where(found.summed > 0)
        found["optimal_percent"] *= 100 / found.has_known.where(found.has_known > 0)
        found["proved_percent"] *= 100 / found.supported.where(found.supported > 0)
        return self._named(found.drop(columns=["least", "summed", "has_known", "supported"]))

    def _counted(self) -> pd.DataFrame:
        """Return the runs with the columns that `summaries` counts and averages."""
        frame = self.frame
        excess, has_optimum = frame.excess_percent, frame.has_optimum
        is_supported = frame.status != Status.UNSUPPORTED
        is_solved = frame.is_answered & frame.objective.notna()
        finite = excess.where(np.isfinite(excess))
        has_terms = frame.terms.fillna(1) > 1
        is_summed = excess.notna() & ~has_terms
        optimum = frame.cell.map(self.proofs.optima)
        return frame.assign(
            unproved=is_solved & ~has_optimum,
            infeasible=frame.status == Status.INFEASIBLE,
            without_solution=frame.is_answered & ~is_solved & (frame.status != Status.INFEASIBLE),
            failed=frame.status == Status.ERROR,
            unsupported=~is_supported,
            infinite=np.isinf(excess) & ~has_terms,
            several_terms=np.isinf(excess) & has_terms,
            finite=finite,
            at_most=finite.where(has_optimum, frame.largest_excess_percent),
            paid=frame.objective.where(is_summed).astype(float),
            least=optimum.where(is_summed).astype(float),
            summed=is_summed,
            optimal=excess == 0,
            has_known=is_supported & has_optimum,
            proved=frame.status.isin(PROVED),
            supported=is_supported,
            time_ms=1e3 * frame.time_s,
            certify_ms=1e3 * frame.certify_time_s.where(frame.is_answered),
        )

    def grouped(self, frame: pd.DataFrame, *by: str) -> Any:
        """Group runs by the columns `by` and by solver, in the order in which tables list them.

        Families are in the order of the study. Values of an axis are numbers in increasing order,
        followed by texts in file order.
        """
        ranks = pd.DataFrame({name: in_order(frame[name]) for name in by})
        ranks["configuration"] = frame.configuration.map(self.configurations.index)
        order = ranks.sort_values(list(ranks), kind="stable").index
        return frame.loc[order].groupby([*by, "configuration"], sort=False, dropna=False)

    def _named(self, found: pd.DataFrame) -> pd.DataFrame:
        names = {FAMILY: "family", GROUP: "family", **self.axes}
        return found.reset_index().rename(columns=names)


def counted_proof_time_s(frame: pd.DataFrame) -> pd.Series:
    """Return the time of each proof in seconds; a run without a proof counts with its time limit.

    NaN for an instance that the solver does not support, and for a run without limit and proof.
    """
    counted = frame.proof_time_s.fillna(frame.time_limit_s)
    return counted.mask(frame.status == Status.UNSUPPORTED)


def log_ratio(time_s: pd.Series, yardstick_s: pd.Series) -> pd.Series:
    """Return the logarithm of `time_s` / `yardstick_s` for each run; NaN if a time is missing."""
    return np.log(time_s.clip(lower=SHORTEST_TIME_S) / yardstick_s.clip(lower=SHORTEST_TIME_S))


def family_label(run: SolverRecord) -> str:
    """Return a label with the instance family of a run and its parameters that are not study axes.

    Instances from files or from the library are labelled by their group only.
    """
    if run.family == FILE:
        return f"{run.family_group} {FILE}s".strip()
    if run.family == LIBRARY:
        return f"{run.family_group}, {LIBRARY}"
    parameters = (f"{name}={value}" for name, value in fixed_parameters(run).items())
    return ", ".join([run.family, *parameters])


def fixed_parameters(run: SolverRecord) -> dict[str, AxisValue]:
    """Return the family parameters of a run that are not axes of the study, sorted by name.

    Instances from files or from the library have no such parameters.
    """
    if run.family in (FILE, LIBRARY):
        return {}
    return {
        name: value for name, value in sorted(run.family_parameters.items()) if name not in run.axes
    }


def group_label(run: SolverRecord) -> str:
    """Return the label of the group of families that a run belongs to."""
    return f"{run.family_group} (all families)" if run.family_group else "all families"
