"""Tables of speed: medians, counts and ratios equal those computed by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from lyra_opt.core.csv_text import frame_text
from lyra_opt.experiments.analysis import (
    ASKED_SIZE,
    FAMILY,
    GROUP,
    Analysis,
    counted_proof_time_s,
    log_ratio,
)
from lyra_opt.experiments.plots.times import plot_cactus
from lyra_opt.experiments.tables import speed_table
from tests.experiments.records import make_runs
from tests.tables import tables

TABLES = tables(__file__)


def hand_made_analysis() -> Analysis:
    """Return three instances, a yardstick, and a rival limited to 8 s."""
    return Analysis(make_runs(TABLES["by_hand"], time_limit_s=8.0))


def test_row_equals_what_is_computed_by_hand():
    rows = hand_made_analysis().speed_table("yardstick", GROUP)
    yardstick, rival = rows.itertuples()
    assert (rival.configuration, rival.instances, rival.proved) == ("rival", 3, 1)
    assert rival.median_time_ms == pytest.approx(5500.0)  # without c3, which failed
    assert rival.max_time_ms == pytest.approx(9000.0)
    assert rival.time_ratio == pytest.approx((2 * 9 / 2) ** (1 / 2))
    assert rival.proof_time_ratio == pytest.approx((2 * 4 * 8) ** (1 / 3))
    assert (yardstick.proved, yardstick.time_ratio, yardstick.proof_time_ratio) == (3, 1.0, 1.0)


def test_rows_are_written():
    rows = hand_made_analysis().speed_table("yardstick", GROUP)
    table = speed_table(rows, "yardstick").text("markdown").splitlines()
    assert table[0].endswith("| Time / that of yardstick | Time to proof / that of yardstick |")
    assert table[3] == "| all families | rival | 1 of 3 | 5,500 | 9,000 | 3.00 | 4.00 |"
    assert frame_text(rows).startswith("family,configuration,instances")


def test_counted_time_is_the_limit_without_a_proof():
    counted = counted_proof_time_s(Analysis(make_runs(TABLES["without_a_proof"])).frame)
    assert counted.tolist() == pytest.approx([1.5, 1.0, 1.0, 1.0, math.nan, math.nan], nan_ok=True)


def test_ratio_is_over_what_both_have():
    analysis = Analysis(make_runs(TABLES["in_part"]))
    ratios = analysis.speed_table("yardstick", GROUP).set_index("configuration").time_ratio
    assert ratios["rival"] == pytest.approx(4.0)
    assert math.isnan(ratios["stranger"])
    # Of ratios, so that it does not matter which of two is the yardstick.
    inverse = analysis.speed_table("rival", GROUP).set_index("configuration").time_ratio
    assert inverse["yardstick"] == pytest.approx(1 / 4.0)


def test_time_of_no_length_has_a_ratio():
    assert log_ratio(pd.Series([0.0]), pd.Series([0.0])).tolist() == [0.0]


def test_groups_of_a_table():
    analysis = Analysis(make_runs(TABLES["groups"]))

    def groups(*by: str) -> list[tuple[object, ...]]:
        rows = analysis.speed_table("s", *by)
        return [
            tuple(None if pd.isna(value) else value for value in row)
            for row in rows.loc[:, :"configuration"].itertuples(index=False)
        ]

    assert groups(GROUP) == [("hard (all families)", "s"), ("all families", "s")]
    assert groups(GROUP, ASKED_SIZE) == [
        ("hard (all families)", 10, "s"),
        ("all families", None, "s"),
    ]
    assert groups(FAMILY, "servers") == [("made", 10, "s"), ("made", 41, "s")]


def test_cactus_counts_proofs_in_order_of_their_times():
    from matplotlib.figure import Figure

    frame = pd.DataFrame(
        [("a", 8.0), ("a", 1.0), ("a", 1.0), ("b", 3.0), ("b", math.nan), ("c", math.nan)],
        columns=["configuration", "proof_time_s"],
    )
    axes = Figure().subplots()
    plot_cactus(frame, ["a", "b", "c"], 4, axes)
    drawn = {
        str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata()))
        for line in axes.get_lines()[:-1]
    }
    end = pytest.approx(8.8)
    assert drawn == {
        "a": ([1.0, 1.0, 8.0, end], [0, 2, 3, 3]),  # both proofs at 1 s are one step
        "b": ([3.0, 3.0, end], [0, 1, 1]),
    }
