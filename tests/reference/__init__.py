"""The meaning of each problem, written from its documents; nothing here imports the package.

Unit tests and fuzzers use it. A problem's module enumerates solutions and evaluates them.

Each has

* ``VARIANTS``, and ``MAXIMISED``, those of them that are;
* ``optimum(document)``, the best value, `INFEASIBLE`, or `UNKNOWN` where brute force would take
  too long;
* ``measured(document, chosen)``, what a solution is worth and whatever else an answer says of it,
  by key; it raises `InvalidChoiceError` for what is no solution. `chosen` is as
  ``solve --format json`` has it.
"""

from types import ModuleType

from tests.reference import allocation, heterogeneous, network, preemption, reclaim

PROBLEMS: dict[str, ModuleType] = {
    "allocation": allocation,
    "heterogeneous": heterogeneous,
    "network": network,
    "preemption": preemption,
    "reclaim": reclaim,
}
