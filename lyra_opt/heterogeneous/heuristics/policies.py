"""Every round policy by name, for the simulated cluster and for standalone instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.heuristics.allox import AlloX
from lyra_opt.heterogeneous.heuristics.gavel_fifo import GavelFifo
from lyra_opt.heterogeneous.heuristics.gavel_gandiva import GavelGandiva
from lyra_opt.heterogeneous.heuristics.gavel_policies import gavel_policies, gavel_summaries
from lyra_opt.heterogeneous.heuristics.hadar.forking import HadarE
from lyra_opt.heterogeneous.heuristics.hadar.rule import Hadar
from lyra_opt.heterogeneous.heuristics.priced_progress import PricedProgress
from lyra_opt.heterogeneous.heuristics.tiresias import Tiresias
from lyra_opt.heterogeneous.heuristics.yarn_cs import YarnCs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy

ROUND_POLICIES: Mapping[str, Callable[[], RoundPolicy]] = {
    "allox": AlloX,
    **gavel_policies(),
    "gavel-fifo": GavelFifo,
    "gavel-gandiva": GavelGandiva,
    "hadar": Hadar,
    "hadare": HadarE,
    "priced-progress": PricedProgress,
    "tiresias": Tiresias,
    "yarn-cs": YarnCs,
}
"""Name to what makes a policy for one run."""

SUMMARIES: Mapping[str, str] = {
    "allox": "one-GPU jobs matched to places in the GPUs' queues (AlloX)",
    **gavel_summaries(),
    "gavel-fifo": "first come, first served, each on its fastest type (Gavel)",
    "gavel-gandiva": "equal parts for all; pairs drawn to share GPUs if these are short (Gavel)",
    "hadar": "jobs buy GPUs of any kinds at exponential prices (Hadar)",
    "hadare": "copies of jobs on all servers at once (HadarE); with forking only",
    "priced-progress": "most progress at prices that clear the market, critical jobs first (ours)",
    "tiresias": "those who have had little service first, in queues (Tiresias)",
    "yarn-cs": "first come, first served, never interrupted (YARN-CS)",
}
"""One line on each policy of `ROUND_POLICIES`."""
