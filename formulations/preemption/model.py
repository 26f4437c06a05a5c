"""The preemption model, written once as rows that all backends take.

The variables are integers of at least 0. ``z_g, e_k``: lost gangs of a set, and lost pods of
surviving gangs. ``o_k, i_mn``: pods that leave their node, and pods that enter another node.
``x_sn, u_s``: placed and unplaced pods. ``w_d, t``: used domains, and their number beyond the
first. ``v_n``: emptied nodes. ``y_b``: excess over a budget.
"""

from collections.abc import Iterator

from lyra_opt.formulations.backends.all_backends import BACKENDS
from lyra_opt.formulations.backends.rows import Row, Term
from lyra_opt.formulations.exact_model import RowStatement
from lyra_opt.formulations.preemption.model_data import FORMULATION, PreemptionModel
from lyra_opt.formulations.preemption.model_rows import Variables
from lyra_opt.formulations.preemption.staged import StagedSolver

# Constraints


def leaving(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Lose and move at most the c_k pods of group k: ``c_k z_g + e_k + o_k <= c_k``.

    g is the gang of group k.
    """
    return data.rows("leaving", variables)


def minimum(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Lose gang g, or keep its minimum: ``sum_k e_k + (p_g - l_g) z_g <= p_g - l_g``."""
    return data.rows("minimum", variables)


def moves(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Let as many pods of kind m enter nodes as leave nodes: ``sum_k o_k - sum_n i_mn = 0``."""
    return data.rows("moves", variables, is_equation=True)


def demand(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Place each pod of shape s, or count it as unplaced: ``sum_n x_sn + u_s = d_s``."""
    return data.rows("demand", variables, is_equation=True)


def domain(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Place pods only in used domains: ``x_sn - U_sn w_d <= 0``, where n is in domain d."""
    return data.rows("domain", variables)


def used_domains(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Use at most one domain and t further domains: ``sum_d w_d - t <= 1``.

    If the level is required, t is 0.
    """
    return data.rows("used_domains", variables)


def emptied_nodes(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Choose N nodes to be emptied: ``sum_n v_n = N``."""
    return data.rows("emptied_nodes", variables, is_equation=True)


def vacated(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Let all pods leave an emptied node n: ``-(c_k z_g + e_k + o_k) + h_k v_n <= 0``.

    There is a row for each group k on the node; h_k counts the pods of the group in all alike
    gangs. If node n must be empty: ``-(c_k z_g + e_k + o_k) <= -h_k``.
    """
    return data.rows("vacated", variables)


def closed(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Let no pod come to an emptied node n: ``x_sn + U_sn v_n <= U_sn``, and alike for i_mn."""
    return data.rows("closed", variables)


def budget(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Keep budget b; if it is soft, count the excess over it.

    ``sum_g a_bg z_g + sum_k (a_bk e_k + m_bk o_k) - y_b <= B_b``. Only soft budgets have y_b.
    """
    return data.rows("budget", variables)


def capacity(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Keep the capacity of node n for resource r, which grows by what leaves the node.

    ``sum_s q_sr x_sn + sum_m q_mr i_mn - sum_k a_kr (c_k z_g + e_k + o_k) <= f_nr``, where k runs
    over the pod groups on node n. The row is divided by the greatest common divisor of its
    coefficients.
    """
    return data.rows("capacity", variables)


def earlier_terms(data: PreemptionModel, variables: Variables) -> Iterator[Row]:
    """Keep the value V_t of each term t of an earlier stage: ``C_t <= V_t``.

    `cost` defines C_t.
    """
    return data.earlier_terms(variables)


CONSTRAINTS = (
    *(leaving, minimum, moves, demand, domain, used_domains, emptied_nodes, vacated, closed),
    *(budget, capacity, earlier_terms),
)


# Objective


def cost(data: PreemptionModel, variables: Variables) -> list[Term]:
    """Minimise the terms of the stage as one integer: ``sum_t W_t C_t``.

    ``C_t = sum_g c_tg z_g + sum_k (c_tk e_k + m_tk o_k)`` for terms about gangs and their pods, and
    ``sum_s u_s``, ``t`` or ``sum_b y_b`` for ``unplaced``, ``extra_domains`` and
    ``budget_excess``.
    """
    return data.cost(variables)


STATEMENT = RowStatement(CONSTRAINTS, cost)

SOLVERS = tuple(StagedSolver(FORMULATION, STATEMENT, backend) for backend in BACKENDS)
