"""Tenures and options are what they say, or are refused."""

from __future__ import annotations

from lyra_opt.simulation.scheme import Options
from lyra_opt.simulation.tenure import Epochs, Forever, Leases, Rounds


def test_by_name() -> None:
    """Each scheme has the tenure that it names, as the options have it."""
    options = Options(forever=Forever(preemption_s=1), leases=Leases(lease_s=2))
    assert options.tenure("forever") == Forever(preemption_s=1)
    assert options.tenure("leases") == Leases(lease_s=2)
    assert options.tenure("rounds") == Rounds()
    assert options.tenure("epochs") == Epochs()


def test_rounds_begin_at_multiples() -> None:
    """Whatever is between them is decided as the next one begins."""
    rounds = Rounds(round_s=0.1, restart_s=0.0, merge_s=0.0)
    for number in range(1000):
        assert rounds.round_from(number * 0.1) == number
        assert rounds.decides_at_s(number * 0.1 + 0.05) == (number + 1) * 0.1
        assert Epochs(epoch_s=0.1).decides_at_s(number * 0.1 + 0.05) == (number + 1) * 0.1
