"""Formatting of values, keys and times as text for tables and printed answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from lyra_opt.core.errors import one_line
from lyra_opt.core.numbers import RUN_UNITS, duration, exact, unit_of

LONGEST_LIST = 12


class PrintedText(str):
    """A text that the REPL and notebooks show as it is, instead of in quotes on one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the text without the end of its last line."""
        return self.rstrip("\n")


def show_list(values: Sequence[str]) -> str:
    """Return names on one line: at most the first twelve, then the total number of names."""
    shown = one_line(", ".join(values[:LONGEST_LIST])) or "none"
    if len(values) > LONGEST_LIST:
        shown += f", ... ({len(values)} in all)"
    return shown


def show_value_of(value: object) -> str:
    """Return a value as text: numbers as `exact` writes them, lists and objects entry by entry.

    If the entries are objects, their keys come first, in brackets.

    >>> show_value_of([{"job": "A", "start_s": 0, "workers": 2}])
    '[job, start (s), workers] A 0 2'
    """
    if isinstance(value, list | dict):
        first = value[0] if isinstance(value, list) and value else None
        roles = f"[{', '.join(map(words, first))}] " if isinstance(first, dict) else ""
        return roles + show_list(show_entries(value))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return exact(value) if is_number else str(value)


def show_count(value: object) -> str:
    """Return a value for a table cell: "" for None, and the length of a list or object."""
    if value is None:
        return ""
    return str(len(value)) if isinstance(value, list | dict) else show_value_of(value)


def show_entries(value: Sequence[Any] | Mapping[str, Any]) -> list[str]:
    """Return each entry of a list or object as text; an entry that is an object becomes its values.

    >>> show_entries({"a": 2}), show_entries([{"job": "a", "start_s": 0.5}])
    (['a 2'], ['a 0.5'])
    """
    if isinstance(value, dict):
        return [f"{key} {show_value_of(entry)}" for key, entry in value.items()]
    return [
        " ".join(map(show_value_of, entry.values() if isinstance(entry, dict) else [entry]))
        for entry in value
    ]


def words(key: str) -> str:
    """Return a key of ``solve --format json`` as words, with its unit.

    >>> words("used_gpus"), words("mean_jct_s"), words("gpu_s"), words("peak_memory_mib")
    ('used GPUs', 'mean JCT (s)', 'GPU-seconds', 'peak memory (MiB)')
    >>> words("jobs_per_cpu_s")
    'jobs per CPU second'
    """
    key = f"{key.removesuffix('_s')}_second" if key.endswith("_per_cpu_s") else key
    name = key.removesuffix("gpu_s") + "GPU-seconds" if key.endswith("gpu_s") else key
    name = f"{name.removesuffix('_s')} (s)" if name.endswith("_s") else name
    name = f"{name.removesuffix('_mib')} (MiB)" if name.endswith("_mib") else name
    for plain, written in (("_", " "), ("gpus", "GPUs"), ("jct", "JCT"), ("cpu", "CPU")):
        name = name.replace(plain, written)
    return name


def show_seconds(time_s: float | None) -> str:
    """Return a duration as text in seconds, or in milliseconds below one second; "" for None."""
    if time_s is None:
        return ""
    return duration(time_s, unit_of(time_s, RUN_UNITS))
