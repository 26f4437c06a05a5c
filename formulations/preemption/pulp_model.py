"""The preemption model in PuLP, solved by CBC (in its own process) or HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.formulations.backends.pulp import CBC, HIGHS, integers, weighted
from lyra_opt.formulations.exact_model import Statement
from lyra_opt.formulations.preemption.model_data import FORMULATION
from lyra_opt.formulations.preemption.staged import StagedSolver

if TYPE_CHECKING:
    from lyra_opt.formulations.preemption.model_data import PreemptionModel, Rows
    from lyra_opt.formulations.preemption.model_rows import Variables


# Variables


def add_variables(model: Any, data: PreemptionModel) -> Variables:
    """Add variables for lost, moved and placed pods; all are integers of at least 0.

    ``z_g, e_k``: lost gangs of a set, and lost pods of surviving gangs. ``o_k, i_mn``: pods that
    leave their node, and pods that enter another node. ``x_sn, u_s``: placed and unplaced pods.
    ``w_d, t``: used domains, and their number beyond the first. ``v_n``: emptied nodes. ``y_b``:
    excess over a budget.
    """
    return integers(model, data.largest)


# Constraints


def add_at_most(model: Any, rows: Rows) -> None:
    """Add rows ``sum of terms <= most``."""
    for name, terms, most in rows:
        model += weighted(terms) <= most, name


def add_equal(model: Any, rows: Rows) -> None:
    """Add rows ``sum of terms == most``."""
    for name, terms, most in rows:
        model += weighted(terms) == most, name


def leaving(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Lose and move at most the c_k pods of group k: ``c_k z_g + e_k + o_k <= c_k``.

    g is the gang of group k.
    """
    add_at_most(model, data.rows("leaving", variables))


def minimum(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Lose gang g, or keep its minimum: ``sum_k e_k + (p_g - l_g) z_g <= p_g - l_g``."""
    add_at_most(model, data.rows("minimum", variables))


def moves(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Let as many pods of kind m enter nodes as leave nodes: ``sum_k o_k - sum_n i_mn = 0``."""
    add_equal(model, data.rows("moves", variables))


def demand(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Place each pod of shape s, or count it as unplaced: ``sum_n x_sn + u_s = d_s``."""
    add_equal(model, data.rows("demand", variables))


def domain(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Place pods only in used domains: ``x_sn - U_sn w_d <= 0``, where n is in domain d."""
    add_at_most(model, data.rows("domain", variables))


def used_domains(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Use at most one domain and t further domains: ``sum_d w_d - t <= 1``.

    If the level is required, t is 0.
    """
    add_at_most(model, data.rows("used_domains", variables))


def emptied_nodes(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Choose N nodes to be emptied: ``sum_n v_n = N``."""
    add_equal(model, data.rows("emptied_nodes", variables))


def vacated(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Let all pods leave an emptied node n: ``-(c_k z_g + e_k + o_k) + h_k v_n <= 0``.

    There is a row for each group k on the node; h_k counts the pods of the group in all alike
    gangs. If node n must be empty: ``-(c_k z_g + e_k + o_k) <= -h_k``.
    """
    add_at_most(model, data.rows("vacated", variables))


def closed(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Let no pod come to an emptied node n: ``x_sn + U_sn v_n <= U_sn``, and alike for i_mn."""
    add_at_most(model, data.rows("closed", variables))


def budget(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Keep budget b; if it is soft, count the excess over it.

    ``sum_g a_bg z_g + sum_k (a_bk e_k + m_bk o_k) - y_b <= B_b``. Only soft budgets have y_b.
    """
    add_at_most(model, data.rows("budget", variables))


def capacity(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Keep the capacity of node n for resource r, which grows by what leaves the node.

    ``sum_s q_sr x_sn + sum_m q_mr i_mn - sum_k a_kr (c_k z_g + e_k + o_k) <= f_nr``, where k runs
    over the pod groups on node n. The row is divided by the greatest common divisor of its
    coefficients.
    """
    add_at_most(model, data.rows("capacity", variables))


def earlier_terms(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Keep the value V_t of each term t of an earlier stage: ``C_t <= V_t``.

    `add_objective` defines C_t.
    """
    add_at_most(model, data.earlier_terms(variables))


CONSTRAINTS = (
    *(leaving, minimum, moves, demand, domain, used_domains, emptied_nodes, vacated, closed),
    *(budget, capacity, earlier_terms),
)


# Objective


def add_objective(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Minimise the terms of the stage as one integer: ``sum_t W_t C_t``.

    ``C_t = sum_g c_tg z_g + sum_k (c_tk e_k + m_tk o_k)`` for terms about gangs and their pods, and
    ``sum_s u_s``, ``t`` or ``sum_b y_b`` for ``unplaced``, ``extra_domains`` and
    ``budget_excess``.
    """
    model += weighted(data.cost(variables))


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

PULP_CBC = StagedSolver(FORMULATION, STATEMENT, CBC)
PULP_HIGHS = StagedSolver(FORMULATION, STATEMENT, HIGHS)
