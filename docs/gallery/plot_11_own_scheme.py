"""
A scheme of your own
====================

A policy decides at every event, from the current state, and runs on any cluster. This policy runs
the jobs with the least remaining GPU time, and stops other jobs for them.
"""

import lyra_opt as lo
from lyra_opt.simulation.policy import QueuePolicy


class LeastRemaining(QueuePolicy):
    """Runs the jobs with least GPU time left, and stops others for them."""

    def decide(self, view):
        """Rank all jobs anew, stop those at the end, and start others where there is room."""
        runs = [*view.running.values(), *self.waiting.values()]
        for run in runs:
            view.account(run)
        ranked = sorted(runs, key=lambda run: (view.left_gpu_s(run), run.order))
        gpus = view.hosts.gpus
        for run in ranked:
            gpus -= run.job.min_gpus
            if gpus < 0 and run.is_running:
                view.stop(run)
        for run in ranked:
            if not run.is_running and (parts := view.fit(run)):
                self.start(view, run, parts)


small = {"cluster.servers": 12, "cluster.loans.servers": 14, "jobs.parameters.days": 2}
runs = lo.simulate("lyra-paper", schemes=["fifo", "lyra", LeastRemaining], changes=small)
runs.frame.set_index("scheme")[
    ["jct_mean_s", "queue_mean_s", "lost_work_mean_s", "preemptions"]
].round(0)

# %%
# A job without checkpoints starts again from the beginning after it was stopped, and loses its
# work. Lyra also gives extra workers to jobs.

runs.plot()
