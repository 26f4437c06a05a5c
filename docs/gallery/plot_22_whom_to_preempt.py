"""
Whom to preempt for a waiting gang
==================================

A gang of two pods with 4 GPUs each waits, and no node has 4 free GPUs. The cluster has 12 nodes,
and a real Slurm chose victims on it. All 16 running jobs have a lower priority than the waiting
gang. The objective is the number of GPUs that the lost jobs held.
"""

import lyra_opt as lo

cluster = lo.generate("preemption", "recorded", recording="slurm", seed=40)
rules = ["kube-pods", "slurm", "exact"]
answers = {rule: lo.solve(cluster, rule) for rule in rules}
for rule, answer in answers.items():
    lost = ", ".join(answer.solution.lost_gangs)
    print(f"{rule}: {answer.objective} GPUs are lost, of {lost} ({answer.status})")

# %%
# ``kube-pods`` imitates kube-scheduler, which sees pods and not gangs, and prefers nodes with few
# victims. It evicts two pods, and each of them ends a job that holds 8 more GPUs on another node.
# ``slurm`` imitates Slurm, which removes whole jobs. It decides as the real Slurm did:

from lyra_opt.instances.preemption.recorded import recorded_decisions

recorded = recorded_decisions("slurm")[40].solution
print(recorded.lost_gangs == answers["slurm"].solution.lost_gangs)

# %%
# The upper bar of a node shows its pods before the decision, and the lower bar its pods afterwards.

lo.plot(cluster, list(answers.values()))
