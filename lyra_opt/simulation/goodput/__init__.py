"""Goodput: what tuning batch sizes does to a job, and the scheduler that is built on it.

* `model`: the goodput of a training job by GPUs and batch size, and profiles of five models.
* `tuning`: what that makes of a job of the simulation.
* `pollux`: the fitness of Pollux's allocation of one epoch, and a bound on it.
* `allocation`: a search of such allocations, which the tests hold against brute force and against
  Pollux's own.
* `rules`: Lyra's scaling of tuned jobs.

Source: Qiao et al., *Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning*
(OSDI 2021), and its public artifact, the branch ``osdi21-artifact`` of petuum/adaptdl.
"""
