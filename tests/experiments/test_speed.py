"""Times of proofs: counted, compared and drawn as computed by hand."""

import math

import pandas as pd
import pytest

from lyra_opt.experiments.analysis import Analysis, counted_proof_time_s, log_ratio
from lyra_opt.experiments.plots.times import plot_cactus
from tests.experiments.records import make_runs
from tests.tables import tables

TABLES = tables(__file__)


def test_counted_time_is_the_limit_without_a_proof():
    counted = counted_proof_time_s(Analysis(make_runs(TABLES["without_a_proof"])).frame)
    assert counted.tolist() == pytest.approx([1.5, 1.0, 1.0, 1.0, math.nan, math.nan], nan_ok=True)


def test_time_of_no_length_has_a_ratio():
    assert log_ratio(pd.Series([0.0]), pd.Series([0.0])).tolist() == [0.0]


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
