"""Where one integer encodes several terms, texts show the terms and never the integer."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.core.evidence import Claim, Evidence
from lyra_opt.core.problem import find_problem
from lyra_opt.core.solving import OWN_BOUND, Witness
from lyra_opt.core.terms import ONE_NUMBER, Terms
from lyra_opt.preemption import Moves
from lyra_opt.testing.strategies import preemption_instances
from tests.lyra_opt.preemption.examples import BEST, example
from tests.malformed import INSTANCES
from tests.pictures import faults_of

TENS = Terms(("big", "small"), lambda code: divmod(code, 10))
"""Two terms, the less important one below 10."""


def said(*claims):
    evidence = Evidence(claims, Moves.NONE, terms=TENS)
    return [evidence.in_words(claim) for claim in claims]


def test_the_first_term_that_differs_is_named():
    """What comes after it does not count, however large the difference is."""
    assert TENS.in_words(37) == "3, 7"
    assert [TENS.difference(37, other) for other in (20, 30, 37, 44)] == [
        "+1 big",
        "+7 small",
        "0",
        "-1 big",
    ]
    assert (ONE_NUMBER.in_words(37), ONE_NUMBER.in_words(0.25)) == ("37", "0.25")


def test_no_percentage_is_said_of_several_terms():
    """Of the integer it would be meaningless: 30 is not 50 % worse than 20."""
    assert said(Claim("a", lo.Status.FEASIBLE, 37), Claim("b", lo.Status.FEASIBLE, 24, 15)) == [
        "+1 big over the best found, at most +2 big over the optimum",
        "the best found, at most +1 big over the optimum",
    ]
    assert said(Claim("a", lo.Status.FEASIBLE, 3), Claim("b", lo.Status.OPTIMAL, 0, 0)) == [
        "+3 small over the optimum",
        "optimal",
    ]
    assert said(Claim("a", lo.Status.FEASIBLE, 3, 0)) == ["at most +3 small over the optimum"]


def test_contradictions_name_terms():
    """Of an objective and of a bound."""
    claims = [Claim("a", lo.Status.FEASIBLE, 24), Claim("b", lo.Status.UNKNOWN, None, 37)]
    (found,) = Evidence(claims, Moves.NONE, terms=TENS).contradictions()
    assert found.sentence == "a found objective 2, 4, but b (unknown) has dual bound 3, 7"


@given(instance=preemption_instances(), data=st.data())
def test_terms_of_an_instance(instance, data):
    """Several terms are decoded as they were encoded; a single one is a number."""
    values = [data.draw(st.integers(0, term.largest)) for term in instance.terms.terms]
    terms = find_problem("preemption").terms_of(instance)
    if len(values) < 2:
        assert terms is ONE_NUMBER
    else:
        assert terms.keys == tuple(term.key for term in instance.terms.terms)
        assert terms.in_words(instance.terms.encode(values)) == ", ".join(map(str, values))


def test_an_answer_shows_values_with_their_names():
    """In its text and HTML, and those of its witness; objects of JSON keep the integer."""
    instance = example()
    answer = lo.solve(instance, "exact")
    assert answer.solution == BEST
    text = str(answer)
    assert re.search(
        r"objective: +2, 0, 1, 8 \(lost_pods@10, lost_pods@5, lost_gangs, lost:gpu\)\n", text
    ), text
    assert re.search(r"dual bound: +2, 0, 1, 8\n", text)
    assert "terms" not in text
    assert "2, 0, 1, 8 (lost_pods@10" in answer._repr_html_()
    assert repr(answer).endswith("objective 2, 0, 1, 8>")
    assert str(answer.objective) not in text
    seen = answer.as_json_object("file")
    assert seen["objective"] == seen["dual_bound"] == answer.objective
    assert seen["terms"] == {"lost_pods@10": 2, "lost_pods@5": 0, "lost_gangs": 1, "lost:gpu": 8}
    bound = Witness(method=OWN_BOUND, dual_bound=0, proves=False, wall_time_s=0.001)
    witnessed = str(replace(answer, witness=bound))
    assert "is 0, 0, 0, 0, in 1.00 ms" in witnessed


def test_a_verification_shows_values_with_their_names():
    """As an answer does."""
    assert "objective: 2, 0, 1, 8 (lost_pods@10, lost_pods@5, lost_gangs, lost:gpu)" in str(
        lo.verify(example(), BEST)
    )


def test_a_picture_of_progress_has_no_numbers_of_several_terms():
    """Its axis says how many terms they encode, or which term a number is."""
    for objective, said in ((None, "3 terms as one number"), (["lost:gpu"], "lost:gpu")):
        answer = lo.solve(example(objective=objective), "exact")
        figure = lo.plot_progress(answer)
        (axes,) = figure.axes
        assert axes.get_ylabel() == f"Objective ({said})"
        figure.canvas.draw()
        shown = any(label.get_visible() for label in axes.yaxis.get_ticklabels())
        assert shown == (objective is not None)
        assert faults_of(figure) == []


def test_a_false_proof_is_found(tmp_path):
    """A document of the whole format, whose integer is another one."""
    instance = find_problem("preemption").parse_instance(INSTANCES["preemption"].valid)
    answer = lo.solve(instance, "exact")
    wrong = replace(answer, objective=answer.objective + 1)
    verification = lo.verify(instance, wrong)
    assert not verification
