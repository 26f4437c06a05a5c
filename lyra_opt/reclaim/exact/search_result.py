"""What a tree search knows when it ends: an incumbent and a bound, whatever ended it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lyra_opt.core.result import StoppedBy


class SearchResult(NamedTuple):
    """Incumbent and bound of a search over a `ReducedReclaim`."""

    places: list[int]
    """The best choice known, as places of the reduced instance, ascending."""
    objective: int
    """Weight of the jobs that it preempts."""
    bound: int
    """Proved: no choice preempts less. Equal to `objective` once the search is complete."""
    nodes: int
    """Nodes whose bound was computed."""
    stopped_by: StoppedBy | None
    """The limit that ended the search, None if it is complete."""
