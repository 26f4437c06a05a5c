"""How fast GPUs are on which the jobs of Gavel's table were not measured.

No table for HadarE's testbeds was published. What is assumed here is one speed for all models,
relative to a V100, although models differ: on GPUs that were measured the ratio of P100 to V100
ranges from 0.2 to 2.3. It is a stand-in for tables that nobody has, and every result says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

V100_BANDWIDTH_GB_PER_S = 900
BANDWIDTH_GB_PER_S = {
    "titan-rtx": 672,
    "rtx-3090": 936,
    "rtx-a2000": 288,
    "t400": 80,
}
"""Memory bandwidths of NVIDIA's data sheets, from memory."""

T4_SPEED = 1 / 3
"""Three T4 do what one V100 does: Lyra (EuroSys 2023), section 7.5; bandwidth says 0.36."""

DERIVED_SPEEDS = {
    "t4": T4_SPEED,
    **{name: bandwidth / V100_BANDWIDTH_GB_PER_S for name, bandwidth in BANDWIDTH_GB_PER_S.items()},
}
"""Speed relative to a V100, of every model."""


def derivation_in_words(gpu_types: Sequence[str]) -> str:
    """Return where the rates on types that were not measured come from."""
    listed = ", ".join(f"{name} {DERIVED_SPEEDS[name]:.2f}" for name in gpu_types)
    return (
        f"Assumed: rates are those on a V100 times {listed}, for every model alike; T4 as in Lyra "
        "(section 7.5), others by memory bandwidth (data sheets, from memory). They were not "
        "measured."
    )
