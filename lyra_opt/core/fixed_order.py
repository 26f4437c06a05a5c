"""Products of arrays that are the same on every processor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def product(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``left @ right``, added up in an order that does not depend on the processor.

    BLAS, which computes ``@``, has a kernel for each family of processors. The kernels add in
    different orders, so the last bits differ, and with them every decision that compares the
    result. Use this product wherever a result decides anything.

    Parameters
    ----------
    left, right
        Vectors or matrices.

    Notes
    -----
    Time and memory are O(rows * columns * inner length).
    """
    if right.ndim == 1:
        found: NDArray[np.float64] = (left * right).sum(axis=-1)
    else:
        found = (left[..., None] * right).sum(axis=-2)
    return found
