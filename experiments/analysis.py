"""From stored runs to the numbers of the report."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Literal

from experiments.study import FILE
from lyra_opt.problem import find_problem
from lyra_opt.result import Status, same_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from experiments.records import AxisValue, SolverRecord
    from lyra_opt.result import Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What a row of a table summarises.

    Parameters
    ----------
    family
        The family with its parameters, or the name of what sums up several families.
    axes
        Size and axes of the study by name, with their values; None where there is none.
    """

    family: str
    axes: tuple[tuple[str, AxisValue | None], ...] = ()

    def columns(self) -> dict[str, AxisValue | None]:
        """Return its columns by name, for tables that programs read."""
        return {"family": self.family, **dict(self.axes)}

    def value(self, axis: str) -> AxisValue | None:
        """Return its value on an axis, None if it has none."""
        return dict(self.axes).get(axis)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One row of a table: one configuration on the instances of one group.

    ``instances`` = ``compared`` + ``unproved`` + ``without_solution`` + ``failed`` +
    ``unsupported``: no instance is dropped. A mean over nothing is None.

    Parameters
    ----------
    group, configuration
        What was run on what.
    instances
        All runs of the row.
    compared
        Runs with a solution, on instances whose optimum is proved.
    unproved
        Runs with a solution, on instances whose optimum no run proves.
    without_solution, failed, unsupported
        Runs that ended without a solution, in an error, or with a refusal of the instance.
    infinite
        How many of `compared` pay something where the optimum is 0. Their excess is infinite:
        they count as not optimal, and are left out of the mean.
    mean_excess_percent
        Of |objective - optimum| / |optimum|, over `compared` less `infinite`.
    max_excess_percent
        The same over `compared`; infinite if one of them is.
    total_excess_percent
        Of |sum of the objectives - sum of the optima| / |sum of the optima|, over `compared`:
        what the excess comes to where small optima weigh little, and optima of 0 count too.
    mean_excess_at_most_percent
        As the mean, but over the best dual bound of each instance where its optimum is not
        proved, and so over `unproved` too: what the mean over both cannot exceed.
    optimal_percent
        How often the objective is the optimum, of the instances whose optimum is proved. Runs
        without a solution count as not optimal, failed ones too; unsupported ones do not count.
    proved_percent
        How often the run's own bound proves its solution optimal, of all but unsupported runs.
    median_time_ms, max_time_ms
        Of the solver's wall time, over all runs that did not fail.
    median_certify_time_ms
        Of the time of the problem's own bound, where it was computed.
    """

    group: Group
    configuration: str
    instances: int
    compared: int
    unproved: int
    without_solution: int
    failed: int
    unsupported: int
    infinite: int
    mean_excess_percent: float | None
    max_excess_percent: float | None
    total_excess_percent: float | None
    mean_excess_at_most_percent: float | None
    optimal_percent: float | None
    proved_percent: float | None
    median_time_ms: float | None
    max_time_ms: float | None
    median_certify_time_ms: float | None


class Analysis:
    """The stored runs of a study with the proved optimum of each instance.

    Parameters
    ----------
    runs
        All stored runs, in the order of the study.
    """

    def __init__(self, runs: Sequence[SolverRecord]) -> None:
        # A run whose worker died does not say how large its instance was: its siblings do.
        sizes = {run.cell: run.size for run in runs if run.size is not None}
        self.runs = [replace(run, size=sizes.get(run.cell)) for run in runs]

    @cached_property
    def configurations(self) -> list[str]:
        """Every configuration, in the order of the study, the references last."""
        references = {run.configuration for run in self.runs if run.reference}
        return [*self.heuristics, *(label for label in self._labels if label in references)]

    @cached_property
    def heuristics(self) -> list[str]:
        """The configurations that are no references, in the order of the study."""
        heuristics = {run.configuration for run in self.runs if not run.reference}
        return [label for label in self._labels if label in heuristics]

    @cached_property
    def families(self) -> dict[str, list[str]]:
        """Every family with its parameters, by group, in the order of the study."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for run in self.runs:
            found[run.family_group][family_label(run)] = None
        return {group: list(families) for group, families in found.items()}

    @property
    def _labels(self) -> list[str]:
        return list(dict.fromkeys(run.configuration for run in self.runs))

    @cached_property
    def optima(self) -> Mapping[str, Number]:
        """The proved optimum by cell: the best objective, where the best bound meets it.

        Or the optimum that the family knows by construction.
        """
        objectives = self._best("objective")
        by_construction = {
            run.cell: run.known_optimum for run in self.runs if run.known_optimum is not None
        }
        return by_construction | {
            cell: objectives[cell]
            for cell, bound in self.bounds.items()
            if cell in objectives
            and same_value(objectives[cell], bound, tolerance=self._proof_gaps[cell])
        }

    @cached_property
    def witnesses(self) -> Mapping[str, frozenset[str]]:
        """The methods that prove the optimum, each by itself, by cell with a proved optimum.

        A reference stands for itself, all other solvers for the problem's own bound, and a
        family that knows the optimum for its construction.
        """
        found: dict[str, set[str]] = {cell: set() for cell in self.optima}
        for run in self.runs:
            optimum = self.optima.get(run.cell)
            if optimum is None:
                continue
            if run.known_optimum is not None:
                found[run.cell].add("construction")
            if run.status is Status.ERROR or run.dual_bound is None:
                continue
            if same_value(run.dual_bound, optimum, tolerance=self._proof_gaps[run.cell]):
                found[run.cell].add(run.solver if run.reference else "the problem's own bound")
        return {cell: frozenset(methods) for cell, methods in found.items()}

    @cached_property
    def _proof_gaps(self) -> Mapping[str, float]:
        """The relative gap within which values prove one another, by cell."""
        return {
            run.cell: find_problem(run.problem).proof_gap_of(run.variant)
            for run in self.runs
            if run.variant is not None
        }

    @cached_property
    def bounds(self) -> Mapping[str, Number]:
        """The best dual bound by cell."""
        return self._best("dual_bound")

    def _best(self, column: Literal["objective", "dual_bound"]) -> dict[str, Number]:
        """Return the best value of a column by cell; runs that failed claim nothing."""
        found: dict[str, Number] = {}
        for run in self.runs:
            value = getattr(run, column)
            if value is not None and run.status is not Status.ERROR:
                is_least = minimises(run) == (column == "objective")
                better = min if is_least else max
                found[run.cell] = better(value, found.get(run.cell, value))
        return found

    def excess_percent(self, run: SolverRecord) -> float | None:
        """Return how far a run's objective is from the proved optimum; infinity if that is 0.

        None without a solution or without a proved optimum.
        """
        optimum = self.optima.get(run.cell)
        if optimum is None or run.objective is None or run.status is Status.ERROR:
            return None
        return self._excess_percent(run, optimum)

    def largest_excess_percent(self, run: SolverRecord) -> float | None:
        """Return how far a run's objective can at most be from the optimum, proved or not.

        None without a solution; infinity without a bound.
        """
        if run.objective is None or run.status is Status.ERROR:
            return None
        bound = self.bounds.get(run.cell)
        return math.inf if bound is None else self._excess_percent(run, bound)

    def _excess_percent(self, run: SolverRecord, yardstick: Number) -> float:
        """Return the excess of a run with a solution; 0 within the gap that counts as proved."""
        assert run.objective is not None, "the run has a solution"
        if same_value(run.objective, yardstick, tolerance=self._proof_gaps[run.cell]):
            return 0.0
        return 100 * abs(run.objective - yardstick) / abs(yardstick) if yardstick else math.inf

    def _total_excess_percent(self, solved: Sequence[SolverRecord]) -> float | None:
        pairs = [
            (run.objective, self.optima[run.cell])
            for run in solved
            if run.objective is not None and run.cell in self.optima
        ]
        if not pairs:
            return None
        paid, least = (math.fsum(values) for values in zip(*pairs, strict=True))
        if paid == least:
            return 0.0
        return 100 * abs(paid - least) / abs(least) if least else math.inf

    def gap_table(self) -> list[Summary]:
        """Return a row for each family, size, value of the study's axes, and configuration.

        Instances that are read from files are of any size, so that theirs is no column.
        """
        return self._table(
            lambda run: Group(
                family=family_label(run),
                axes=(
                    (size_name(run), None if run.family == FILE else run.size),
                    *axes_of(run).items(),
                ),
            )
        )

    def family_table(self) -> list[Summary]:
        """Return a row for each family and configuration."""
        return self._table(lambda run: Group(family=family_label(run)))

    def overall_table(self) -> list[Summary]:
        """Return the rows of `family_table`, then those of `sums_table`."""
        return self.family_table() + self.sums_table()

    def sums_table(self) -> list[Summary]:
        """Return a row for each group of families that the study names, and configuration."""
        return self._table(lambda run: Group(family=group_label(run)))

    def _table(self, group_of: Callable[[SolverRecord], Group]) -> list[Summary]:
        return [self._summary(*row) for row in self.grouped(group_of)]

    def grouped(
        self, group_of: Callable[[SolverRecord], Group]
    ) -> list[tuple[Group, str, list[SolverRecord]]]:
        """Return the runs of each group and configuration: the rows of a table, in its order."""
        grouped: dict[tuple[Group, str], list[SolverRecord]] = defaultdict(list)
        families: dict[str, int] = {}
        values: dict[AxisValue | None, int] = {}
        axes: dict[str, None] = {}
        for run in self.runs:
            group = group_of(run)
            families.setdefault(group.family, len(families))
            for axis, value in group.axes:
                axes[axis] = None
                values.setdefault(value, len(values))
            grouped[group, run.configuration].append(run)

        def rank(value: AxisValue | None) -> tuple[int, float]:
            """Numbers in order, then words as they come."""
            if value is None:
                return 0, 0
            return (2, values[value]) if isinstance(value, str) else (1, value)

        def place(key: tuple[Group, str]) -> tuple[object, ...]:
            group, label = key
            ranks = [rank(group.value(axis)) for axis in axes]
            return families[group.family], ranks, self.configurations.index(label)

        return [(*key, grouped[key]) for key in sorted(grouped, key=place)]

    def _summary(self, group: Group, configuration: str, runs: list[SolverRecord]) -> Summary:
        answered = [run for run in runs if run.status not in (Status.ERROR, Status.UNSUPPORTED)]
        supported = [run for run in runs if run.status is not Status.UNSUPPORTED]
        solved = [run for run in answered if run.objective is not None]
        excess = [e for run in solved if (e := self.excess_percent(run)) is not None]
        finite = [e for e in excess if math.isfinite(e)]
        unproved = [
            e
            for run in solved
            if run.cell not in self.optima and (e := self.largest_excess_percent(run)) is not None
        ]
        times_ms = [1e3 * run.wall_time_s for run in answered if run.wall_time_s is not None]
        certify_ms = [
            1e3 * run.certify_time_s for run in answered if run.certify_time_s is not None
        ]
        return Summary(
            group=group,
            configuration=configuration,
            instances=len(runs),
            compared=len(excess),
            unproved=len(unproved),
            without_solution=len(answered) - len(solved),
            failed=len(supported) - len(answered),
            unsupported=len(runs) - len(supported),
            infinite=len(excess) - len(finite),
            mean_excess_percent=_mean(finite),
            max_excess_percent=max(excess, default=None),
            total_excess_percent=self._total_excess_percent(solved),
            mean_excess_at_most_percent=_mean(finite + unproved),
            optimal_percent=_percent(
                excess.count(0.0), sum(run.cell in self.optima for run in supported)
            ),
            proved_percent=_percent(
                sum(run.status is Status.OPTIMAL for run in supported), len(supported)
            ),
            median_time_ms=median(times_ms) if times_ms else None,
            max_time_ms=max(times_ms, default=None),
            median_certify_time_ms=median(certify_ms) if certify_ms else None,
        )


def minimises(run: SolverRecord) -> bool:
    """Return whether the objective of the run's instance is minimised, not maximised."""
    return run.variant is None or find_problem(run.problem).sense_of(run.variant) == "min"


def size_name(run: SolverRecord) -> str:
    """Return what the size of the run's instance counts."""
    return find_problem(run.problem).size_name


def axes_of(run: SolverRecord) -> dict[str, AxisValue]:
    """Return the run's values of the axes of its study, less that of the size."""
    size = size_name(run)
    return {name: value for name, value in run.axes.items() if name != size}


def family_label(run: SolverRecord) -> str:
    """Return a run's family with the parameters that are no axes, in order of name.

    Instances that are read from files are told apart by their group alone.
    """
    if run.family == FILE:
        return f"{run.family_group} {FILE}s".strip()
    parameters = (f"{name}={value}" for name, value in fixed_parameters(run).items())
    return ", ".join([run.family, *parameters])


def fixed_parameters(run: SolverRecord) -> dict[str, AxisValue]:
    """Return the parameters of a run's family that are no axes, by name and in its order.

    Instances that are read from files have none: the file is the instance.
    """
    if run.family == FILE:
        return {}
    return {
        name: value for name, value in sorted(run.family_parameters.items()) if name not in run.axes
    }


def group_label(run: SolverRecord) -> str:
    """Return the name of all families that a study sums up with this run's."""
    return f"{run.family_group} (all families)" if run.family_group else "all families"


def time_to_proof_ms(run: SolverRecord) -> float | None:
    """Return how long solver and bound took until the optimum was proved; None if it was not."""
    if run.status is not Status.OPTIMAL or run.wall_time_s is None:
        return None
    return 1e3 * (run.wall_time_s + (run.certify_time_s or 0.0))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _percent(count: int, total: int) -> float | None:
    return 100 * count / total if total else None
