"""What the plots that all simulations share need to know of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np


class Named(Protocol):
    """A scheme."""

    @property
    def name(self) -> str:
        """The name the command line knows it by."""


class Moments(Protocol):
    """States of the cluster over time."""

    @property
    def time_s(self) -> np.ndarray:
        """Since time 0 of the workload."""


class JobTimes(Protocol):
    """What became of each job, in the order of the workload."""

    @property
    def completion_s(self) -> np.ndarray:
        """When it completed."""

    @property
    def queued_s(self) -> np.ndarray:
        """How long it waited in all."""

    @property
    def jct_s(self) -> np.ndarray:
        """From submission to completion."""


class Figures(Protocol):
    """Figures of a run."""

    @property
    def makespan_s(self) -> float:
        """From the first submission to the last completion."""


class DrawnReplay(Protocol):
    """A finished run."""

    @property
    def scheme(self) -> Named:
        """How the cluster was run."""

    @property
    def series(self) -> Moments:
        """The cluster over time."""

    @property
    def outcomes(self) -> JobTimes:
        """What became of the jobs."""

    @property
    def metrics(self) -> Figures:
        """Its figures."""

    @property
    def first_submission_s(self) -> float:
        """When the first job is submitted."""

    @property
    def last_submission_s(self) -> float:
        """When the last job is submitted."""
