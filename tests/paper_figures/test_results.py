"""Measures of a run's tables, by hand."""

from types import SimpleNamespace

import pandas as pd
import pytest

from lyra_opt.core.numbers import DAY_S
from lyra_opt.paper_figures.results import daily_loan_usage, usage_of_lent_servers_in_use


def outcome(**series):
    """Return a run of two days, on the second of which more is lent."""
    columns = {"time_s": [0.0, DAY_S, 2 * DAY_S], **series}
    return SimpleNamespace(
        series=pd.DataFrame(columns), jobs=pd.DataFrame({"submit_s": [0.0, 1.5 * DAY_S]})
    )


def test_usage_of_what_is_lent_and_of_what_is_in_use():
    """Servers that hold nothing count for the one, and not for the other."""
    run = outcome(
        gpus_held_on_loan=[12.0, 24.0, 0.0],
        busy_servers=[2.0, 4.0, 0.0],
        servers_on_loan=[2.0, 10.0, 10.0],
    )
    assert daily_loan_usage(run, day=1) == pytest.approx(12 / 16)
    assert daily_loan_usage(run, day=2) == pytest.approx(24 / 80)
    assert usage_of_lent_servers_in_use(run) == pytest.approx(36 / 48)


def test_nothing_is_lent():
    """Then there is no usage."""
    nothing = [0.0, 0.0, 0.0]
    run = outcome(gpus_held_on_loan=nothing, busy_servers=nothing, servers_on_loan=nothing)
    assert daily_loan_usage(run, day=1) is None
    assert usage_of_lent_servers_in_use(run) is None
