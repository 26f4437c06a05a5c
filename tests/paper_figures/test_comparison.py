"""A published number beside ours: what is judged of it, and what a page shows."""

from lyra_opt.paper_figures.comparison import Bound, Comparison, Entry, Gains, Judged
from lyra_opt.paper_figures.verdicts import RULE, Verdict


def entry(paper, ours, **further):
    """Return an entry of row a and column b."""
    return Entry(row="a", column="b", paper=paper, ours=ours, **further)


def page_of(*entries, **further):
    """Return a page of entries."""
    return Comparison(name="n", title="T", entries=entries, **further).as_markdown()


def test_value_and_gain_are_judged_apart():
    """A share of preempted jobs that is wrong by ten times is not reproduced by its gain."""
    found = entry("12.24", 0.93, gains=Gains(paper=1.22, ours=1.25))
    assert (found.value_verdict, found.gain_verdict) == (Verdict.DIFFERS, Verdict.REPRODUCED)
    page = page_of(found, entry("5", 5.0))
    assert "2 published numbers. Verdicts on values: 1 reproduced, 1 differs. " in page
    assert "Verdicts on gains: 1 reproduced." in page
    assert "| a | b | 12.24 | 0.93 | 0.076 | 1.22 | 1.25 | differs | reproduced |" in page
    assert "| a | b | 5 | 5 | 1.000 |  |  | reproduced |  |" in page


def test_a_published_gain_is_no_value():
    """It is judged once, and so is a reduction in per cent."""
    found = entry("1.5", 1.6, judged=Judged.GAIN, spread=(1.4, 1.7))
    assert found.verdicts == [Verdict.REPRODUCED]
    assert found.shown_gains is None
    less = entry("50", 60.0, judged=Judged.REDUCTION)
    assert less.verdicts == [Verdict.NEAR]  # 2.5 times against 2
    assert "| 2 | 2.5 | near |" in page_of(less)


def test_spread_over_workloads_that_the_paper_tells_apart_reproduces_nothing():
    """Only seeds stand for chance."""
    given = {"judged": Judged.GAIN, "spread": (1.4, 2.2)}
    assert entry("1.5", 2.0, **given).verdicts == [Verdict.REPRODUCED]
    assert entry("1.5", 2.0, is_over_seeds=False, **given).verdicts == [Verdict.SAME_DIRECTION]


def test_bound_makes_unattainable_what_is_not_reproduced():
    """Where no scheduler gets there; it stands beside the number."""
    bound = Bound(value=1.19, is_most=True)
    found = entry("1.20", 1.0, judged=Judged.GAIN, bound=bound)
    assert found.verdicts == [Verdict.UNATTAINABLE]
    assert entry("1.20", 1.15, judged=Judged.GAIN, bound=bound).verdicts == [Verdict.REPRODUCED]
    far = Bound(value=1.5, is_most=True)
    assert entry("1.20", 1.0, judged=Judged.GAIN, bound=far).verdicts == [Verdict.DIFFERS]
    page = page_of(found)
    assert "1 published number. Verdicts on gains: 1 unattainable as read." in page
    assert "| a | b | 1.20 | 1 | 0.833 | at most 1.19 | unattainable as read |" in page


def test_bound_on_a_value_says_nothing_of_its_gain():
    """It was proved of the number that the paper prints."""
    bound = Bound(value=20.0, is_most=True)
    found = entry("32", 18.0, bound=bound, gains=Gains(paper=1.5, ours=1.1))
    assert found.verdicts == [Verdict.UNATTAINABLE, Verdict.SAME_DIRECTION]


def test_what_is_not_modelled_is_shown_and_not_judged():
    """However close it happens to be; what was not run is not run."""
    gains = Gains(paper=1.5, ours=1.5)
    assert set(entry("55", 55.0, is_modelled=False, gains=gains).verdicts) == {Verdict.NOT_MODELLED}
    assert entry("55", None, is_modelled=False).verdicts == [Verdict.NOT_RUN]
    assert "1 published number. Verdicts on values: 1 not modelled." in page_of(
        entry("55", 55.0, is_modelled=False)
    )


def test_not_run_is_shown_and_counted():
    """A scheme that is not there is no zero."""
    found = entry("5", None, gains=Gains(paper=1.2, ours=None))
    page = page_of(found, is_wide=True)
    assert found.verdicts == 2 * [Verdict.NOT_RUN]
    assert (
        "1 published number. Verdicts on values: 1 not run. Verdicts on gains: 1 not run." in page
    )
    assert "| a | 5 / – |" in page


def test_spread_is_shown():
    """The least and the greatest over seeds, of values and of gains."""
    found = entry("3072", 3000.4, spread=(2000.0, 4000.0))
    assert found.our_value_in_words() == "3000 (2000 to 4000)"
    alike = entry("3072", 3000.4, spread=(3000.3, 3000.4))  # of a scheme that draws nothing
    assert alike.our_value_in_words() == "3000"
    gains = Gains(paper=1.5, ours=1.25, spread=(1.2, 1.3))
    assert "| 1.5 | 1.25 (1.2 to 1.3) |" in page_of(entry("5", 5.0, gains=gains))


def test_page_shows_both_numbers_the_ratio_and_the_rule():
    """A page is a table with a verdict for each entry, and ends with what verdicts mean."""
    entries = [entry("2", 3.0, judged=Judged.EXACT), entry("0", 0.0, judged=Judged.EXACT)]
    page = page_of(*entries, notes=["mind this"])
    assert "| a | b | 2 | 3 | 1.500 | differs |" in page
    assert "| a | b | 0 | 0 |  | reproduced |" in page
    assert "2 published numbers. Verdicts on values: 1 reproduced, 1 differs." in page
    assert "- mind this\n" in page
    assert page.endswith(f"- {RULE[-1]}\n")
