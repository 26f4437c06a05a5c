"""How metrics show distributions of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

RANKS = (50, 95, 99)


def percentiles_s(name: str, values_s: np.ndarray | Sequence[float]) -> dict[str, float]:
    """Return the median and the percentiles of the tail, as fields of metrics.

    They interpolate linearly between jobs.

    >>> percentiles_s("queue", [0.0, 10.0])
    {'queue_p50_s': 5.0, 'queue_p95_s': 9.5, 'queue_p99_s': 9.9}
    """
    found = np.percentile(values_s, RANKS)
    return {f"{name}_p{rank}_s": float(value) for rank, value in zip(RANKS, found, strict=True)}
