"""Decisions of real schedulers, recorded on development machines, as preemption instances."""

from lyra_opt.instances.preemption.parameters import RECORDINGS
from lyra_opt.instances.preemption.recorded.agreement import agreement
from lyra_opt.instances.preemption.recorded.decisions import read_decisions, recorded_decisions

__all__ = ["RECORDINGS", "agreement", "read_decisions", "recorded_decisions"]
