"""The figures of the simulated cluster in rounds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from experiments.bench import heterogeneous_simulation as measured
from lyra_opt.heterogeneous.policies import ROUND_POLICIES

if TYPE_CHECKING:
    import pytest


def test_a_figure_for_each_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is held to a minute, says how many jobs it ran, and needs no trace."""
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    monkeypatch.setattr(measured, "hadar_480", partial(measured.hadar_480, jobs=8))
    figures = list(measured.heterogeneous_simulation_figures())
    assert len(figures) == len(ROUND_POLICIES)
    for figure, name in zip(figures, ROUND_POLICIES, strict=True):
        assert figure.what.startswith(f"{name}, ")
        assert "generated jobs" in figure.what
        assert (figure.target, figure.unit) == (60, "s")
        jobs = int(figure.remark.split()[0])
        assert 0 < jobs <= 8
