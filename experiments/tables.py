"""Tables of a report, with readable column headings, for the terminal and as Markdown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.output import print_table

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import pandas as pd

    from lyra_opt.core.gaps import GapWords

NOTHING = "–"
"""Shown in place of a missing number, such as a mean over no instances."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of formatted texts, to be printed or written as Markdown.

    Parameters
    ----------
    columns
        The texts of each column, by heading.
    words
        Headings of the columns that contain words; all other columns contain numbers.
    least
        Headings of columns that a narrow terminal can leave out, least important first.
    """

    columns: Mapping[str, Sequence[str]]
    words: Collection[str]
    least: Sequence[str] = ()

    def rows(self) -> list[tuple[str, ...]]:
        """Return the texts of each row."""
        return list(zip(*self.columns.values(), strict=True))

    def markdown(self) -> str:
        """Return the table as Markdown, with numbers right-aligned."""
        rule = ["---" if header in self.words else "---:" for header in self.columns]
        return "".join(
            "| " + " | ".join(field.replace("|", r"\|") for field in line) + " |\n"
            for line in (list(self.columns), rule, *self.rows())
        )

    def print(self, elsewhere: str | None = None) -> None:
        """Print the table; columns before the first number are left-aligned.

        With `elsewhere`, the name of a file with the whole table, a narrow terminal shows fewer
        columns; see `print_table`.
        """
        first_number = next(
            place for place, header in enumerate(self.columns) if header not in self.words
        )
        print_table(
            list(self.columns), self.rows(), first_number, elsewhere=elsewhere, least=self.least
        )


def gap_table(table: pd.DataFrame, words: GapWords) -> TextTable:
    """Format the gap statistics of `Analysis.summaries` as a text table; `words` names the gap."""
    left_out = f"Left out of the {words.noun}"
    compared = (table.compared - table.infinite - table.several_terms).astype(str)
    shown = {
        "Family": table.family,
        "Solver": table.configuration,
        **_axis_columns(table),
        f"Mean {words.noun} (%)": table.mean_excess_percent.map(percent),
        f"Maximum {words.noun} (%)": table.max_excess_percent.map(percent),
        f"Total {words.noun} (%)": table.total_excess_percent.map(percent),
        "Instances": compared + " of " + table.instances.astype(str),
        "Mean at most (%)": table.mean_excess_at_most_percent.map(_at_most),
        "Optimal (%)": table.optimal_percent.map(percent),
        "Proved (%)": table.proved_percent.map(percent),
        "Median time (ms)": table.median_time_ms.map(_milliseconds),
        "Maximum time (ms)": table.max_time_ms.map(_milliseconds),
        "Median bound time (ms)": table.median_certify_time_ms.map(_milliseconds),
        left_out: [_left_out(row) for row in table.itertuples()],
    }
    least = ("Median bound time (ms)", "Maximum time (ms)", f"Total {words.noun} (%)", left_out)
    return TextTable(shown, ("Family", "Solver", left_out), least)


def speed_table(table: pd.DataFrame, yardstick: str) -> TextTable:
    """Format the times and time ratios of `Analysis.speed_table` as a text table."""
    shown = {
        "Family": table.family,
        **_axis_columns(table),
        "Solver": table.configuration,
        "Proved": table.proved.astype(str) + " of " + table.instances.astype(str),
        "Median time (ms)": table.median_time_ms.map(_milliseconds),
        "Maximum time (ms)": table.max_time_ms.map(_milliseconds),
        f"Time / that of {yardstick}": table.time_ratio.map(_ratio),
        f"Time to proof / that of {yardstick}": table.proof_time_ratio.map(_ratio),
    }
    return TextTable(shown, ("Family", "Solver"))


def _axis_columns(table: pd.DataFrame) -> dict[str, Sequence[str]]:
    """Return the formatted columns of the study's axes, by heading."""
    place = table.columns.get_loc("configuration")
    axes = table.iloc[:, 1:place].astype(object)
    shown = axes.where(axes.notna(), NOTHING).map(str)
    return {axis_in_words(name): list(shown[name]) for name in shown}


def percent(value: float) -> str:
    """Return a percentage as text with one decimal; NaN becomes a dash."""
    if math.isnan(value):
        return NOTHING
    return "∞" if math.isinf(value) else f"{value:.1f}"


def _at_most(value: float) -> str:
    """Return an upper bound in percent, or a dash if it is not finite."""
    return percent(value) if math.isfinite(value) else NOTHING


def _milliseconds(value: float) -> str:
    if math.isnan(value):
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float) -> str:
    if math.isnan(value):
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _left_out(row: Any) -> str:
    """Return how many instances the mean gap leaves out, and why, in words."""
    reasons = (
        (row.unproved, "optimum not proved"),
        (row.infinite, "optimum 0 missed"),
        (row.several_terms, "optimum of several terms missed"),
        (row.infeasible, "no solution exists"),
        (row.without_solution, "no solution"),
        (row.failed, "failed"),
        (row.unsupported, "unsupported"),
    )
    return ", ".join(f"{count} {reason}" for count, reason in reasons if count)


COUNTED = {"reclaim": "servers"}
"""The unit of a parameter that counts things but does not name them."""


def axis_in_words(name: str) -> str:
    """Return the column heading of an axis, with its unit in brackets.

    >>> axis_in_words("release_percent"), axis_in_words("reclaim"), axis_in_words("gpus_per_worker")
    ('Release (%)', 'Reclaim (servers)', 'GPUs per worker')
    """
    words = _axis_name(name)
    unit = "%" if name.endswith("_percent") else COUNTED.get(name)
    return words[0].upper() + words[1:] + (f" ({unit})" if unit else "")


def parameter_in_words(name: str, value: object) -> str:
    """Return a family's parameter with its value, as part of a sentence.

    >>> parameter_in_words("busy_percent", 80), parameter_in_words("gpus_per_worker", 2)
    ('busy 80 %', 'GPUs per worker 2')
    """
    unit = " %" if name.endswith("_percent") else ""
    return f"{_axis_name(name)} {value}{unit}"


def _axis_name(name: str) -> str:
    return name.removesuffix("_percent").replace("_", " ").replace("gpus", "GPUs")
