"""The integer stream: fixed for ever, uniform, and closed over its edge cases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.instances.randomness import DrawableSet, IntegerStream

PINNED_WORDS = [8_853_605_602_252_052_169, 6_462_860_387_038_423_087, 12_340_986_894_341_378_435]


def test_first_words_are_pinned():
    # If this fails, every golden hash does too: NumPy or the seeding has changed the stream.
    stream = IntegerStream(family="pinned", seed=0)
    assert [stream.word() for _ in range(3)] == PINNED_WORDS


def test_bulk_reading_does_not_change_the_words():
    one, other = IntegerStream(seed=1), IntegerStream(seed=1)
    words = [one.word() for _ in range(10_000)]
    assert [other.word() for _ in range(10_000)] == words
    assert len(set(words)) == len(words)


@pytest.mark.parametrize("axes", [{"seed": 1}, {"seed": "0"}, {"seed": 0, "family": "x"}])
def test_streams_of_other_axes_differ(axes):
    stream, other = IntegerStream(seed=0), IntegerStream(**axes)
    assert [stream.word() for _ in range(4)] != [other.word() for _ in range(4)]


def test_incomplete_run_of_words_is_rejected():
    stream = IntegerStream(seed=0)
    bound = 2**63 + 1  # only words below `bound` itself are accepted
    stream._words = [5, bound - 1, 2**64 - 1, bound]  # given from the end
    assert stream.below(bound) == bound - 1
    assert stream.below(bound) == 5


@pytest.mark.parametrize("bound", [0, -1, 2**64 + 1])
def test_bound_out_of_range(bound):
    with pytest.raises(ValueError, match="must be from 1 to 2"):
        IntegerStream(seed=0).below(bound)


def test_largest_bound_yields_words():
    assert IntegerStream(seed=0).below(2**64) == IntegerStream(seed=0).word()


@given(st.integers(0, 40), st.data(), st.integers(0, 10))
def test_sample_has_distinct_items(size, data, seed):
    count = data.draw(st.integers(0, size))
    sample = IntegerStream(seed=seed).sample(range(size), count)
    assert len(sample) == len(set(sample)) == count
    assert set(sample) <= set(range(size))


def test_sample_larger_than_its_items():
    with pytest.raises(ValueError, match="from 0 to 3, the number of items"):
        IntegerStream(seed=0).sample("abc", 4)


@given(st.lists(st.integers(0, 9)), st.integers(0, 3))
def test_drawable_set_is_a_set(toggles, seed):
    drawable, plain, stream = DrawableSet(range(5)), set(range(5)), IntegerStream(seed=seed)
    for member in toggles:
        if member in plain:
            plain.remove(member)
            drawable.remove(member)
        else:
            plain.add(member)
            drawable.add(member)
        assert len(drawable) == len(plain)
        assert all((member in drawable) == (member in plain) for member in range(10))
        if plain:
            assert drawable.draw(stream) in plain
