"""Proved dual bounds on the weight of preempted jobs.

`dual_bound` holds `rigid_bound`, which uses the minimum cuts of `flow_kernel`;
`interchangeable_bound`, which uses a linear programme; and `PriceCertificate`, which proves either
bound in integers. `semidefinite` holds a stronger bound for rigid instances.

`fast` peels and completes the two sets of servers at the ends of the segment that `rigid_bound`
returns (`RigidBound`). The cost of such a choice is bounded in ``formulations/reclaim/README.md``,
section 6.3. `peeling` starts from all servers on loan and uses no bound; like any heuristic, it
gets a bound with ``--certify``.
"""
