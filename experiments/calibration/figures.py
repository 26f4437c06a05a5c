"""Figures of a schedule of jobs that run once and without a break, from arrays alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.core.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    FloatArray = NDArray[np.float64]

_MEASURE = re.compile(
    r"(?P<of>queue|jct)_(?P<what>mean|p(?P<rank>\d{1,2}))_s"
    r"|training_usage(?P<window>_while_submitting)?"
)


def require_figure(field: str, name: str) -> None:
    """Raise `FieldError` if there is no such figure."""
    if _MEASURE.fullmatch(name) is None:
        rule = "must be queue or jct with _mean_s or _pNN_s, or training_usage"
        raise FieldError(field, name, f"{rule}, or training_usage_while_submitting")


def figures(
    names: Iterable[str],
    *,
    submit_s: FloatArray,
    wait_s: FloatArray,
    run_s: FloatArray,
    gpus: NDArray[np.int64],
    cluster_gpus: int,
) -> dict[str, float]:
    """Return figures by name.

    Parameters
    ----------
    names
        As in ``simulate --json``; percentiles of any whole rank, which interpolate linearly.
    submit_s, wait_s, run_s, gpus : array of jobs
        When each came, how long it waited and ran, and what it held.
    cluster_gpus
        Of which usage is a share.
    """
    values = {"queue": wait_s, "jct": wait_s + run_s}
    start_s = submit_s + wait_s
    ends_s = {
        None: float((start_s + run_s).max()),
        "_while_submitting": float(submit_s.max()),
    }
    found = {}
    for name in names:
        match = _MEASURE.fullmatch(name)
        assert match is not None, "names were checked"
        if match["of"] is None:
            end_s = ends_s[match["window"]]
            held_s = np.clip(end_s - start_s, 0, run_s)
            whole_gpu_s = cluster_gpus * (end_s - float(submit_s.min()))
            found[name] = float(gpus @ held_s) / whole_gpu_s if whole_gpu_s else 0.0
        elif match["rank"] is None:
            found[name] = float(values[match["of"]].mean())
        else:
            found[name] = float(np.percentile(values[match["of"]], int(match["rank"])))
    return found
