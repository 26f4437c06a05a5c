"""Print how often the imitations decide as the recorded programs did, with 20 seeds.

Usage: ``python -m lyra_opt.instances.preemption.recorded [FILE ...]``. Without files, the bundled
recordings are used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lyra_opt.instances.preemption.recorded.agreement import agreement
from lyra_opt.instances.preemption.recorded.decisions import (
    RECORDINGS,
    read_decisions,
    recorded_decisions,
)
from lyra_opt.preemption.heuristics.kubernetes import KubeGang, KubePods
from lyra_opt.preemption.heuristics.slurm import Slurm

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(paths: Sequence[str]) -> None:
    """Print the agreement of each imitation with its recording, or with files of decisions."""
    decisions = [each for path in paths for each in read_decisions(path)] or [
        each for name in RECORDINGS for each in recorded_decisions(name)
    ]
    for rule in (KubePods(), KubeGang(), Slurm()):
        of_rule = [each for each in decisions if each.recording == rule.name]
        if of_rule:
            print(f"{rule.name}: {(found := agreement(rule, of_rule))}")
            print(f"  seeds with another cost, by case: {dict(found.different)}")


if __name__ == "__main__":
    main(sys.argv[1:])
