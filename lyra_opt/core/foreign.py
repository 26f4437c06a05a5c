"""Values of NumPy and pandas, as Python's own: what users have at hand where a rule takes a number.

Neither package is imported for it: a value of theirs is there only if they are loaded.
"""

from __future__ import annotations

from typing import Any


def as_python(value: Any) -> Any:
    """Return a scalar of NumPy or pandas as Python's own; whatever else, as it is.

    Integers become int, numbers float, flags bool, text str, all of them exactly, and pandas' NA
    None. What kind of value it is stays: a whole number of type float64 is no integer, as 8.0 is
    none in a file. Numbers that no float holds stay as they are, and so do times.
    """
    package = _package_of(value)
    if package == "numpy":
        import numpy as np

        if isinstance(value, np.timedelta64):  # an integer by inheritance alone
            return value
        if isinstance(value, np.floating):
            number = float(value)
            return value if number != value and number == number else number
        if isinstance(value, np.bool_ | np.integer | np.str_):
            return value.item()
    elif package == "pandas" and type(value).__name__ == "NAType":
        return None
    return value


def as_list(value: Any) -> Any:
    """Return the entries of a one-dimensional array or series as a list; whatever else, as it is.

    Those of NumPy's types are Python's own then, exactly.
    """
    if _package_of(value) in ("numpy", "pandas") and getattr(value, "ndim", 0) == 1:
        return value.tolist()
    return value


def is_frame(value: Any) -> bool:
    """Return whether a value is a data frame."""
    return _package_of(value) == "pandas" and getattr(value, "ndim", 0) == 2


def _package_of(value: Any) -> str:
    return type(value).__module__.partition(".")[0]
