"""What came of one replay: its row, and its tables when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from lyra_opt.experiments.records import ReplayRecord
    from lyra_opt.experiments.simulation.running.replays import Replays


@dataclass(frozen=True)
class Outcome:
    """A replay that finished.

    Parameters
    ----------
    record
        Its row.
    replays
        The store that it is in.
    """

    record: ReplayRecord
    replays: Replays

    @property
    def figures(self) -> Mapping[str, Any]:
        """What was measured, by name."""
        return self.record.figures or {}

    @cached_property
    def jobs(self) -> pd.DataFrame:
        """What became of each job."""
        return self.replays.jobs(self.record)

    @cached_property
    def series(self) -> pd.DataFrame:
        """The cluster over time."""
        return self.replays.series(self.record)
