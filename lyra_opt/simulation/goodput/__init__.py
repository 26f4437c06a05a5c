"""Goodput: what tuning batch sizes does to a job, and the schedulers that are built on it.

* `model`: the goodput of a training job by GPUs and batch size, and profiles of five models.
* `tuning`: what that makes of a job of the simulation.
* `allocation`: Pollux's allocation of one epoch (its fitness, a bound on it, and a search, which
  the tests compare with brute force), and Lyra's scaling of tuned jobs.

Source: Qiao et al., *Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning*
(OSDI 2021), and its public artifact, the branch ``osdi21-artifact`` of petuum/adaptdl.
"""
