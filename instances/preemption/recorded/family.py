"""Family ``recorded``: the clusters of decisions that real schedulers made."""

from collections.abc import Mapping
from typing import Any, ClassVar

from lyra_opt.core.errors import UserError
from lyra_opt.instances.preemption.family import PreemptionFamily
from lyra_opt.instances.preemption.recorded.decisions import recorded_decisions
from lyra_opt.preemption.instance import Instance


class RecordedFamily(PreemptionFamily):
    """Family ``recorded``: a cluster on which a real scheduler chose victims for a pending gang.

    The recording names the program and its mode, and the seed is the number of the decision in the
    recording, from 0. The objective is the number of lost GPUs.
    """

    required: ClassVar[tuple[str, ...]] = ("recording",)

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance of a decision; `UserError` if the recording is shorter."""
        recording = self.check(parameters).recording
        decisions = recorded_decisions(recording)
        if seed >= len(decisions):
            raise UserError(
                f"--seed is {seed}: recording {recording} has {len(decisions)} decisions, with "
                f"seeds from 0 to {len(decisions) - 1}"
            )
        return decisions[seed].instance


RECORDED = RecordedFamily(
    "recorded", version=1, summary="clusters on which a real kube-scheduler or Slurm chose victims"
)
