"""The exact solvers under test, and instances to give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lyra_opt.reclaim import Instance, Job, Server, Solution, WorkerGroup
from tests.formulations.backends import BACKENDS

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL_SOLVERS = tuple(f"{name}{form}" for name in BACKENDS for form in ("", "-strengthened"))


def scattered_jobs(
    servers: int, spans: Sequence[int], reclaim_servers: int, *, interchangeable: bool = False
) -> Instance:
    """Return jobs of weight 1 with a worker on each of as many random servers as the span says.

    Interchangeable jobs survive the loss of a third of their workers.
    """
    rng = np.random.Generator(np.random.PCG64(7))
    jobs = []
    for number, span in enumerate(spans):
        hosts = rng.permutation(servers)[:span].tolist()
        groups = tuple(WorkerGroup(server=f"s{host}", base=1) for host in hosts)
        needed = {"min_workers": span - span // 3} if interchangeable else {}
        jobs.append(Job(id=f"j{number}", workers=groups, **needed))
    return Instance(
        name="scattered",
        semantics="interchangeable" if interchangeable else "rigid",
        reclaim_servers=reclaim_servers,
        servers=tuple(Server(id=f"s{number}", gpus=len(spans)) for number in range(servers)),
        jobs=tuple(jobs),
    )


def last_servers(instance: Instance) -> Solution:
    """Return the choice of the last servers on loan: valid, and rarely good."""
    on_loan = instance.index.on_loan.tolist()
    return Solution.of_positions(instance, on_loan[len(on_loan) - instance.reclaim_servers :])
