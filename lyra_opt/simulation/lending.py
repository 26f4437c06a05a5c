"""Loans over time: servers of the inference cluster come and go as a plan says."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.cluster import LoanPlan
    from lyra_opt.simulation.view import View


class Lending:
    """Lends servers and calls them back, at regular times from the first submission on.

    Parameters
    ----------
    view
        The simulation, whose `Loans` it keeps.
    plan
        Loans over time; None where the cluster has no servers to lend, or the policy borrows none.
    borrows
        Whether the policy borrows servers.
    begins
        Is called before servers move.
    vacates
        Is given how many servers are called back, and takes them back.

    Attributes
    ----------
    next_s
        When servers move next, or at least could; infinite without a plan.

    Raises
    ------
    UserError
        If the policy borrows servers, but no plan says when; or if the plan lends more than there
        are.
    """

    def __init__(
        self,
        view: View,
        plan: LoanPlan | None,
        *,
        borrows: bool,
        begins: Callable[[], None],
        vacates: Callable[[int], None],
    ) -> None:
        servers = view.cluster.inference_servers
        if plan is None:
            if borrows and servers:
                raise UserError(f"scheme {view.name} borrows servers, but no plan says when")
        elif servers and max(plan.on_loan) > servers:
            raise UserError(
                f"the plan lends {max(plan.on_loan)} of the {servers} inference servers"
            )
        self._view = view
        self._plan = plan if servers else None
        self._begins, self._vacates = begins, vacates
        self._tick = 0
        loans = view.loans
        loans.is_planned = self._plan is not None
        loans.is_active = loans.is_planned and borrows
        loans.is_final = not loans.is_planned
        self.next_s = view.now_s if loans.is_planned else math.inf

    def move(self) -> bool:
        """Lend or call back servers as the plan says now; return whether any moved."""
        plan, view, tick = self._plan, self._view, self._tick
        assert plan is not None, "only plans have ticks"
        loans = view.loans
        self._tick += 1
        self.next_s = view.workload.jobs[0].submit_s + self._tick * plan.interval_s
        loans.is_final = tick >= len(plan.on_loan) - 1
        busy_share = plan.busy_share[min(tick, len(plan.busy_share) - 1)]
        loans.serving_gpus = busy_share * view.cluster.inference_gpus
        if not loans.is_active:
            return False
        change = plan.on_loan[min(tick, len(plan.on_loan) - 1)] - loans.on_loan
        if not change:
            return False
        self._begins()
        loans.on_loan += change
        if change > 0:
            hosts = view.hosts
            idle = (
                host
                for pool in view.cluster.pools
                if pool.is_lent
                for host in pool.hosts
                if not hosts.size[host]
            )
            hosts.lend([next(idle) for _ in range(change)])
            view.totals.loans += 1
        else:
            self._vacates(-change)
        return True
