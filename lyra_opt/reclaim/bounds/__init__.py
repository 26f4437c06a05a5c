"""Proved dual bounds on the weight of preempted jobs.

All in `dual_bound`: `rigid_bound` (minimum cuts, in `flow_kernel`), whose two ends are also
what `fast` peels and completes; `interchangeable_bound` (a linear programme); and
`PriceCertificate`, which proves either in integers.

`peeling` uses no bound and starts from all servers on loan; what holds its answers is
`dual_bound`, as for any rule (``--certify``). `fast` does peel from a bound: from the upper end of
the segment that `rigid_bound` returns (`RigidBound`). What that costs at most is proved in
``formulations/reclaim/README.md``, section 6.3.
"""
