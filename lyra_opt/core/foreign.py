"""Conversion of NumPy and pandas values into Python values, wherever a rule accepts a number.

Neither package is imported here: a value of its types can only exist if the package is loaded.
"""

from typing import Any


def as_python(value: Any) -> Any:
    """Return a NumPy or pandas scalar as a Python scalar; return any other value unchanged.

    Integers become int, floating-point numbers float, booleans bool, and text str, all exactly;
    pandas' NA becomes None. The kind of number is kept: a whole number of type float64 does not
    become an integer, just as 8.0 in a file is not an integer. Numbers that a float cannot
    represent exactly, and times, are returned unchanged.
    """
    package = _package_of(value)
    if package == "numpy":
        import numpy as np

        if isinstance(value, np.timedelta64):  # a subclass of np.integer, but not a number
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
    """Return a one-dimensional array or series as a list; return any other value unchanged.

    Entries of NumPy types become Python scalars, exactly.
    """
    if _package_of(value) in ("numpy", "pandas") and getattr(value, "ndim", 0) == 1:
        return value.tolist()
    return value


def is_frame(value: Any) -> bool:
    """Return whether a value is a pandas data frame."""
    return _package_of(value) == "pandas" and getattr(value, "ndim", 0) == 2


def _package_of(value: Any) -> str:
    return type(value).__module__.partition(".")[0]
