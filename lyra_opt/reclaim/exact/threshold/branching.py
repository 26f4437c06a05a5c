"""On which job or server the threshold search branches: what trying it out, or experience, says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.reclaim.exact.threshold.propagation import CHOSEN, FREE, KEPT, OPEN, PAID, SPARED

if TYPE_CHECKING:
    from lyra_opt.reclaim.exact.threshold.bound import NodeBound

CANDIDATES = 8
RELIABLE_FROM = 4
"""Trials of a job after which its average gain is believed."""

LEAST_SHARE = 1e-4
"""Shares closer to 0 or 1 than this count as decided."""

LEAST_GAIN = 1e-3


@dataclass(frozen=True, slots=True)
class Decision:
    """A job to keep or pay for, or a server to choose or spare."""

    is_job: bool
    number: int

    def states(self) -> tuple[int, int]:
        """Return the two states that it may take."""
        return (KEPT, PAID) if self.is_job else (CHOSEN, SPARED)


class BranchingExperience:
    """How much the bound has risen when jobs were decided on (pseudo-costs).

    Source: reliability branching (Achterberg, Koch, Martin 2005). A gain is divided by how far the
    relaxation was from the decision; gains and their product are in weights.

    Parameters
    ----------
    jobs
        How many there are.
    """

    def __init__(self, jobs: int) -> None:
        self._gain = [[0.0, 0.0] for _ in range(jobs)]
        self._trials = [[0, 0] for _ in range(jobs)]

    def record(self, job: int, side: int, share: float, gain: float) -> None:
        """Learn what keeping (side 0) or paying for (1) a job gained where y was `share`."""
        distance = max(LEAST_GAIN, share if side == 0 else 1.0 - share)
        self._gain[job][side] += gain / distance
        self._trials[job][side] += 1

    def is_reliable(self, job: int) -> bool:
        """Whether the job was tried often enough on both sides."""
        return min(self._trials[job]) >= RELIABLE_FROM

    def expected(self, job: int, share: float) -> tuple[float, float]:
        """Return the gains to expect from keeping and from paying for the job."""
        means = []
        for side in range(2):
            gain, trials = self._gain[job][side], self._trials[job][side]
            if not trials:
                gain = sum(gains[side] for gains in self._gain)
                trials = sum(counts[side] for counts in self._trials)
            means.append(gain / trials if trials else 1.0)
        return means[0] * share, means[1] * (1.0 - share)

    def candidates(self, node: NodeBound, x: list[float], y: list[float]) -> list[Decision]:
        """Return what to try: open jobs that are neither kept nor paid for by y, best first.

        If there are none, servers with x closest to one half. At least one decision as long as
        a server is free.
        """
        undecided = [
            job
            for job in node.active_jobs
            if node.job_state[job] == OPEN and LEAST_SHARE < y[job] < 1.0 - LEAST_SHARE
        ]
        if undecided:
            expected = {job: product(self.expected(job, y[job])) for job in undecided}
            undecided.sort(key=lambda job: (-expected[job], job))
            return [Decision(True, job) for job in undecided[:CANDIDATES]]
        free = [server for server, state in enumerate(node.server_state) if state == FREE]
        free.sort(key=lambda server: (abs(x[server] - 0.5), server))
        return [Decision(False, server) for server in free[:CANDIDATES]]


def product(gains: tuple[float, float]) -> float:
    """Return the measure by which decisions are compared: both sides should gain."""
    return max(LEAST_GAIN, gains[0]) * max(LEAST_GAIN, gains[1])
