"""Share instances with measured rates of Gavel's job types, drawn by seed."""

import numpy as np

from lyra_opt.heterogeneous.instance import GangJob, GpuServer, GpuType, Instance
from lyra_opt.heterogeneous.utility import Deadline, InverseJct
from lyra_opt.instances.heterogeneous.throughput_files import gavel_throughputs


def drawn(
    jobs,
    objective="max_min_share",
    *,
    seed=0,
    servers=3,
    largest_gang=8,
    with_deadlines=False,
    horizon_rounds=1,
):
    """Return jobs of random types on so many servers of 4 GPUs of each of three types."""
    rng = np.random.default_rng(seed)
    table = gavel_throughputs()
    kinds = [kind for kind in table.job_types if kind.gang <= min(largest_gang, 4 * servers)]
    drawn_jobs = []
    for number in range(jobs):
        kind = kinds[rng.integers(len(kinds))]
        steps = kind.throughput["v100"] * 60 * 10 ** rng.uniform(1.5, 4)
        late = with_deadlines and rng.random() < 0.3
        longest_s = 20 * jobs * steps / kind.throughput["v100"]
        drawn_jobs.append(
            GangJob(
                id=f"j{number}",
                gang=kind.gang,
                steps=steps,
                throughput=kind.throughput,
                weight=float(rng.integers(1, 6)),
                elapsed_s=float(rng.integers(0, 100_000)),
                isolated_elapsed_s=float(rng.integers(0, 100_000)),
                utility=Deadline(deadline_s=longest_s + 1e6) if late else InverseJct(),
            )
        )
    prices = (0.74, 0.43, 0.135)
    return Instance(
        name=f"drawn-{jobs}-{seed}",
        objective=objective,
        gpu_types=tuple(
            GpuType(name=name, price_per_hour=price)
            for name, price in zip(table.gpu_types, prices, strict=True)
        ),
        servers=tuple(
            GpuServer(id=f"{name}-{number}", gpus={name: 4})
            for name in table.gpu_types
            for number in range(servers)
        ),
        jobs=tuple(drawn_jobs),
        horizon_rounds=horizon_rounds,
    )
