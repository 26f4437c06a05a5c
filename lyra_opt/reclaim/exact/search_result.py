"""What a tree search knows when it ends: an incumbent and a bound, whatever ended it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lyra_opt.core.result import StoppedBy


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Incumbent and bound of a search over a `ReducedReclaim`.

    Parameters
    ----------
    places
        The best choice known, as places of the reduced instance, ascending.
    objective
        Weight of the jobs that it preempts.
    bound
        Proved: no choice preempts less. Equal to `objective` once the search is complete.
    nodes
        Nodes whose bound was computed.
    stopped_by
        The limit that ended the search, None if it is complete.
    """

    places: list[int]
    objective: int
    bound: int
    nodes: int
    stopped_by: StoppedBy | None
