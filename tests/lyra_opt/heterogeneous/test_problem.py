"""Files of the problem: what they hold comes back, and what is wrong in one is named."""

from lyra_opt.heterogeneous import TimeShares
from lyra_opt.heterogeneous.problem import PROBLEM
from tests.lyra_opt.heterogeneous.examples import entry, instance, job, schedule


def test_shares_come_back_from_their_file():
    """Shares of 0 and jobs without any are left out."""
    one = instance(job("a"), job("b"), objective="throughput")
    solution = TimeShares({"b": {}, "a": {"slow": 0.0, "fast": 0.25}})
    answer = PROBLEM.answer(one, solution)
    assert answer == {"allocation": {"a": {"fast": 0.25}}}
    parsed, _ = PROBLEM.parse_solution({"instance": "example", **answer})
    assert PROBLEM.check(one, parsed) == PROBLEM.check(one, solution)


def test_order_of_an_answer():
    """Rounds, then jobs, servers and types as in the file."""
    one = instance(job("a", 2), job("b"))
    mixed = schedule(
        entry("b", 1, s1={"fast": 1}),
        entry("b", 0, s1={"fast": 1}),
        entry("a", 0, s2={"slow": 1}, s1={"slow": 1}),
    )
    shown = PROBLEM.answer(one, mixed)["allocation"]
    assert [(e["job"], e["round"]) for e in shown] == [("a", 0), ("b", 0), ("b", 1)]
    assert list(shown[0]["gpus"]) == ["s1", "s2"]
