"""Tenures and options are what they say, or are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.scheme import Options
from lyra_opt.simulation.tenure import Epochs, Forever, Leases, Rounds

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Forever(preemption_s=-1), "preemption_s"),
        (lambda: Options(mixed_efficiency=0), "mixed_efficiency"),
        (lambda: Options(mixed_efficiency=2), "mixed_efficiency"),
        (lambda: Options(scaling_interval_s=-1), "scaling_interval_s"),
        # With these, time would stand still.
        (lambda: Leases(lease_s=1e-12), "lease_s"),
        (lambda: Leases(lease_s=1e10), "lease_s"),
        (lambda: Leases(hand_over_s_per_gpu=1e308), "hand_over_s_per_gpu"),
        (lambda: Leases(hand_over_s_per_gpu=-1), "hand_over_s_per_gpu"),
        (lambda: Epochs(epoch_s=0), "epoch_s"),
        (lambda: Epochs(epoch_s=1e10), "epoch_s"),
        (lambda: Epochs(restart_s=-1), "restart_s"),
    ],
)
def test_refused(make: Callable[[], object], field: str) -> None:
    """The field is named."""
    with pytest.raises(FieldError) as caught:
        make()
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"round_s": 0.0}, "round_s is 0.0: must be a finite number above 0"),
        ({"restart_s": 360.0}, "restart_s is 360.0: must be below round_s, 360"),
        ({"restart_s": 200.0, "merge_s": 200.0}, "merge_s is 200.0: must leave some"),
        ({"merge_s": -1.0}, "merge_s is -1.0"),
        ({"copy_efficiency": ()}, "copy_efficiency is"),
        ({"copy_efficiency": (1.0, 1.5)}, r"copy_efficiency\[1\] is 1.5: must be at most 1"),
        ({"copy_efficiency": (0.5,)}, r"copy_efficiency\[0\] is 0.5: must be 1"),
    ],
)
def test_rounds_are_refused(options: dict[str, Any], message: str) -> None:
    """Rounds in which nothing could be done, and other nonsense."""
    with pytest.raises(FieldError, match=message):
        Rounds(**options)


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
