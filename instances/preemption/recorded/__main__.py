"""Print how often the imitations decide like the recorded programs, with 20 seeds.

Usage: ``python -m lyra_opt.instances.preemption.recorded [FILE ...]``. Without files, the bundled
recordings are used.
"""

import sys
from collections.abc import Sequence

from lyra_opt.core.solver import Solver
from lyra_opt.instances.preemption.parameters import RECORDINGS
from lyra_opt.instances.preemption.recorded.agreement import agreement
from lyra_opt.instances.preemption.recorded.decisions import read_decisions, recorded_decisions
from lyra_opt.preemption.heuristics.kubernetes import KubeGang, KubePods
from lyra_opt.preemption.heuristics.slurm import Slurm

RULES: dict[str, Solver] = {rule.name: rule for rule in (KubePods(), KubeGang(), Slurm())}


def main(paths: Sequence[str]) -> None:
    """Print the agreement of each imitation with its recordings, or with files of decisions."""
    recordings = {path: read_decisions(path) for path in paths} or {
        name: recorded_decisions(name) for name in RECORDINGS
    }
    for name, decisions in recordings.items():
        for solver in sorted({each.solver for each in decisions}):
            cases = [each for each in decisions if each.solver == solver]
            found = agreement(RULES[solver], cases)
            print(
                f"{name}: {solver}: {len(cases)} cases, {found.runs} comparisons: same victims in "
                f"{found.same_victims / found.runs:.1%}, same cost in "
                f"{found.same_cost / found.runs:.1%}"
            )
            print(f"  seeds with another cost, by case: {dict(found.different)}")


if __name__ == "__main__":
    main(sys.argv[1:])
