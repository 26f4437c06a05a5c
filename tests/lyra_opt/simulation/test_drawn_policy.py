"""Whatever a policy does that it may do, the books of the simulation are right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.simulation.cluster import Cluster, GpuType, Server
from lyra_opt.simulation.kernel import Kernel
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.tenure import Forever, Leases, Rounds
from lyra_opt.simulation.workload import Workload
from tests.lyra_opt.simulation import on_racks
from tests.lyra_opt.simulation.product import AnyLegal, Watch, require_finite
from tests.lyra_opt.simulation.replays import cases

if TYPE_CHECKING:
    from random import Random

    from lyra_opt.simulation.cluster import LoanPlan
    from lyra_opt.simulation.tenure import Tenure
    from tests.lyra_opt.simulation.replays import Case

TENURES = st.one_of(
    st.builds(Forever, preemption_s=st.sampled_from([0.0, 5.0, 63.0])),
    st.builds(
        Leases,
        lease_s=st.sampled_from([5.0, 20.0, 100.0]),
        hand_over_s_per_gpu=st.sampled_from([0.0, 0.5, 1.0]),
    ),
    st.builds(
        Rounds,
        round_s=st.sampled_from([10.0, 30.0]),
        restart_s=st.sampled_from([0.0, 2.0]),
        merge_s=st.just(0.0),
    ),
)
RANDOMS = st.randoms(use_true_random=False)
WHIMS = st.integers(0, 30)


def run_drawn_policy(
    workload: Workload,
    cluster: Cluster,
    policy: AnyLegal,
    tenure: Tenure,
    plan: LoanPlan | None = None,
) -> None:
    """Run a policy under a watch, to the end."""
    watch = Watch(plan)
    kernel = Kernel(workload, cluster, policy, tenure=tenure, plan=plan, observers=[watch]).run()
    require_conserved(kernel)
    require_finite(kernel)


@given(case=cases(most_jobs=6), tenure=TENURES, draw=RANDOMS, whims=WHIMS)
def test_on_pools_with_loans(case: Case, tenure: Tenure, draw: Random, whims: int) -> None:
    """Jobs of every type; servers come and go."""
    run_drawn_policy(
        Workload(name="drawn", jobs=case.jobs),
        case.cluster,
        AnyLegal(draw, whims),
        tenure,
        case.plan,
    )


@given(case=on_racks.cases(), tenure=TENURES, draw=RANDOMS, whims=WHIMS)
def test_on_racks(case: on_racks.Case, tenure: Tenure, draw: Random, whims: int) -> None:
    """Gangs near and far."""
    workload, cluster, _ = case
    run_drawn_policy(workload, cluster, AnyLegal(draw, whims), tenure)


@given(
    case=cases(most_jobs=6),
    types=st.lists(st.sampled_from([1.0, 0.5, 0.25, 3.0]), min_size=1, max_size=3),
    tenure=TENURES,
    draw=RANDOMS,
    whims=WHIMS,
)
def test_on_unlike_gpus(
    case: Case, types: list[float], tenure: Tenure, draw: Random, whims: int
) -> None:
    """Every server has one more type of GPUs, and some have two."""
    cluster = case.cluster
    own = cluster.own_servers
    servers = [
        replace(server, gpus={**server.gpus, f"type-{place % len(types)}": 2})
        for place, server in enumerate(own)
    ]
    more = [Server(id=f"more-{place}", gpus={f"type-{place}": 4}) for place, _ in enumerate(types)]
    lent = [server for server in cluster.servers if server.is_lent]
    gpu_types = (
        *cluster.gpu_types,
        *(GpuType(name=f"type-{place}", relative_speed=pace) for place, pace in enumerate(types)),
    )
    run_drawn_policy(
        Workload(name="drawn", jobs=case.jobs),
        replace(cluster, gpu_types=gpu_types, servers=(*servers, *more, *lent)),
        AnyLegal(draw, whims),
        tenure,
        case.plan,
    )
