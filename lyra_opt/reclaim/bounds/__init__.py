"""Proved dual bounds on the weight of preempted jobs.

All in `dual_bound`: `rigid_bound` (minimum cuts, in `flow_kernel`), whose two ends are also
what `fast` peels and completes; `interchangeable_bound` (a linear programme); and
`PriceCertificate`, which proves either in integers.
"""
