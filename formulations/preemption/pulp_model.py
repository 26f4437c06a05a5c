"""The preemption model in PuLP, solved by CBC (in its own process) or HiGHS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.formulations.backends.pulp import CBC, HIGHS, integers, weighted
from lyra_opt.formulations.exact_model import Statement
from lyra_opt.formulations.preemption.model_data import FORMULATION
from lyra_opt.formulations.preemption.staged import StagedSolver

if TYPE_CHECKING:
    from lyra_opt.formulations.preemption.model_data import PreemptionModel
    from lyra_opt.formulations.preemption.model_rows import Variables


# Variables


def add_variables(model: Any, data: PreemptionModel) -> Variables:
    """Add variables for lost, moved and placed pods; all are integers of at least 0.

    ``z_g, e_k``: lost gangs of a set, and lost pods of surviving gangs. ``o_k, i_mn``: pods that
    leave their node and enter another. ``x_sn, u_s``: placed and unplaced pods. ``w_d, t``: used
    domains, and those beyond the first. ``v_n``: emptied nodes. ``y_b``: excess over a budget.
    """
    return integers(model, data.largest)


# Constraints


def leaving(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """At most the pods of group k are lost or leave: ``c_k z_g + e_k + o_k <= c_k``.

    g is the gang of group k.
    """
    for name, terms, most in data.rows("leaving", variables):
        model += weighted(terms) <= most, name


def minimum(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Gang g is lost, or keeps its minimum: ``sum_k e_k + (p_g - l_g) z_g <= p_g - l_g``."""
    for name, terms, most in data.rows("minimum", variables):
        model += weighted(terms) <= most, name


def moves(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Pods of kind m that leave enter other nodes: ``sum_k o_k - sum_n i_mn = 0``."""
    for name, terms, most in data.rows("moves", variables):
        model += weighted(terms) == most, name


def demand(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Place the pods of shape s, or count them: ``sum_n x_sn + u_s = d_s``."""
    for name, terms, most in data.rows("demand", variables):
        model += weighted(terms) == most, name


def domain(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Place pods only in used domains: ``x_sn - U_sn w_d <= 0``, where n is in domain d."""
    for name, terms, most in data.rows("domain", variables):
        model += weighted(terms) <= most, name


def one_domain(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Use one domain if the level is required: ``sum_d w_d <= 1``."""
    for name, terms, most in data.rows("one_domain", variables):
        model += weighted(terms) <= most, name


def extra_domains(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Count the domains beyond the first, otherwise: ``sum_d w_d - t <= 1``."""
    for name, terms, most in data.rows("extra_domains", variables):
        model += weighted(terms) <= most, name


def emptied_nodes(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Choose N nodes to be emptied: ``sum_n v_n = N``."""
    for name, terms, most in data.rows("emptied_nodes", variables):
        model += weighted(terms) == most, name


def vacated(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """All pods of group k leave a node that is emptied: ``-(c_k z_g + e_k + o_k) + h_k v_n <= 0``.

    If node n must be empty: ``-(c_k z_g + e_k + o_k) <= -h_k``. h_k counts the pods of all alike
    groups.
    """
    for name, terms, most in data.rows("vacated", variables):
        model += weighted(terms) <= most, name


def closed(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Place no pods on node n if it is emptied: ``x_sn + U_sn v_n <= U_sn``."""
    for name, terms, most in data.rows("closed", variables):
        model += weighted(terms) <= most, name


def closed_to_moves(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Move no pods to node n if it is emptied: ``i_mn + U_mn v_n <= U_mn``."""
    for name, terms, most in data.rows("closed_to_moves", variables):
        model += weighted(terms) <= most, name


def budget(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Keep budget b, or count its excess.

    ``sum_g a_bg z_g + sum_k (a_bk e_k + m_bk o_k) - y_b <= B_b``. A hard budget has no y_b.
    """
    for name, terms, most in data.rows("budget", variables):
        model += weighted(terms) <= most, name


def capacity(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Hold at most what is free and what leaves, of resource r on node n.

    ``sum_s q_sr x_sn + sum_m q_mr i_mn - sum_k a_kr (c_k z_g + e_k + o_k) <= f_nr``, where k runs
    over the pod groups on node n. The row is divided by the greatest common divisor of its
    coefficients.
    """
    for name, terms, most in data.rows("capacity", variables):
        model += weighted(terms) <= most, name


def earlier_terms(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Keep the value V_t of each term t of an earlier stage: ``C_t <= V_t``, with C_t as below."""
    for name, terms, most in data.earlier_terms(variables):
        model += weighted(terms) <= most, name


CONSTRAINTS = (
    leaving,
    minimum,
    moves,
    demand,
    domain,
    one_domain,
    extra_domains,
    emptied_nodes,
    vacated,
    closed,
    closed_to_moves,
    budget,
    capacity,
    earlier_terms,
)


# Objective


def add_objective(model: Any, data: PreemptionModel, variables: Variables) -> None:
    """Minimise the terms of the stage as one integer: ``sum_t W_t C_t``.

    ``C_t = sum_g c_tg z_g + sum_k (c_tk e_k + m_tk o_k)`` for the terms that gangs cost, and
    ``sum_s u_s``, ``t`` or ``sum_b y_b`` for the others.
    """
    model += weighted(data.cost(variables))


STATEMENT = Statement(add_variables, CONSTRAINTS, add_objective)

PULP_CBC = StagedSolver(FORMULATION, STATEMENT, CBC)
PULP_HIGHS = StagedSolver(FORMULATION, STATEMENT, HIGHS)
