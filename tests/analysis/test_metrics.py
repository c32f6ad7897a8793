"""The paper's metrics against numbers worked out by hand, and their properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sail.analysis.metrics import (
    Improvement,
    average_score,
    final_score,
    human_normalised,
    human_normalised_median,
    over_seeds,
    relative_improvement,
    relative_improvement_over_games,
)
from sail.errors import BadInputError

NAN = np.nan
curves = hnp.arrays(float, st.integers(1, 8), elements=st.floats(-1000, 1000, width=16))


def test_final_score():
    curve = [1.0, 2.0, 4.0, 9.0]
    assert final_score(curve) == 9.0
    assert final_score(curve, last=2) == 6.5  # (4 + 9) / 2
    assert final_score(curve, last=4) == average_score(curve) == 4.0  # 16 / 4
    assert isinstance(final_score(curve), float)
    assert final_score([curve, [0.0, 0.0, 2.0, -3.0]], last=2).tolist() == [6.5, -0.5]


def test_a_run_that_stopped_early_has_no_final_score():
    seeds = [[1.0, 2.0, 3.0], [1.0, NAN, NAN]]
    assert final_score(seeds) == pytest.approx([3.0, NAN], nan_ok=True)
    assert final_score(seeds, last=3).tolist() == [2.0, 1.0]
    assert np.isnan(average_score([NAN, NAN]))


def test_average_score_leaves_out_iterations_without_a_score():
    assert average_score([NAN, 2.0, NAN, 5.0]) == 3.5
    assert average_score([[1.0, 3.0], [NAN, -1.0]]).tolist() == [2.0, -1.0]


def test_over_seeds():
    assert over_seeds([1.0, NAN]) == pytest.approx([1.0, NAN], nan_ok=True)
    seeds = [[1.0, 2.0, NAN, 5.0], [3.0, NAN, NAN, 7.0]]
    assert over_seeds(seeds) == pytest.approx([2.0, 2.0, NAN, 6.0], nan_ok=True)


@pytest.mark.parametrize(
    ("x", "base", "value", "iterations"),
    [
        # mean of the differences / |mean of the base|: (2 + 4) / 2 / 2 = 1.5
        ([3.0, 7.0], [1.0, 3.0], 1.5, 2),
        ([1.0, 3.0], [3.0, 7.0], -0.6, 2),  # -3 / 5: not the same size the other way round
        # Negative base: from -100 to -27 is better, +0.73. With base alone below the line it would be -0.73.
        ([-27.0], [-100.0], 0.73, 1),
        ([-100.0], [-80.0], -0.25, 1),
        ([10.0], [-10.0], 2.0, 1),
        # A base that averages (-1 + 3) / 2 = 1: the mean comes before the absolute value.
        ([1.0, 3.0], [-1.0, 3.0], 1.0, 2),
        # The common beginning: (2 + 4) / 2 / 2 again, whatever comes after, and whichever is longer.
        ([3.0, 7.0], [1.0, 3.0, 500.0], 1.5, 2),
        ([3.0, 7.0, -9.0], [1.0, 3.0], 1.5, 2),
        # Without the second iteration, (2 + 4) / 2 / 2 once more.
        ([3.0, NAN, 7.0, 8.0], [1.0, 50.0, 3.0, NAN], 1.5, 2),
        # Seeds are averaged first: 3, 7 against 1, 3.
        ([[2.0, 7.0], [4.0, 7.0]], [[1.0, NAN], [1.0, 3.0]], 1.5, 2),
    ],
)
def test_relative_improvement(x, base, value, iterations):
    assert relative_improvement(x, base, eps=0.0) == Improvement(pytest.approx(value, rel=1e-14), iterations)


def test_epsilon_decides_where_the_base_scores_nothing():
    assert relative_improvement([5.0], [0.0], eps=0.5) == (10.0, 1)
    assert relative_improvement([5.0], [0.0]) == (pytest.approx(5e6), 1)
    assert relative_improvement([0.0], [0.0]) == (0.0, 1)
    assert relative_improvement([6.0], [-3.5], eps=0.5) == (2.375, 1)  # 9.5 / (3.5 + 0.5)


def test_relative_improvement_over_games():
    x = {"a": [2.0], "b": [1.0], "c": [8.0, 8.0], "only x": [1.0]}
    base = {"c": [2.0], "b": [2.0], "a": [1.0], "only base": [1.0]}
    result = relative_improvement_over_games(x, base, eps=0.0)
    # +100 %, -50 %, +300 %
    assert result.games == {"a": (1.0, 1), "b": (-0.5, 1), "c": (3.0, 1)}
    assert list(result.games) == ["a", "b", "c"]
    assert (result.average, result.median) == (3.5 / 3, 1.0)
    assert result.left_out == ["only base", "only x"]


@given(curves, curves)
def test_the_sign_is_that_of_the_difference(x, base):
    length = min(len(x), len(base))
    value, iterations = relative_improvement(x, base)
    assert iterations == length
    gain = np.mean(x[:length] - base[:length])
    assert np.sign(value) == np.sign(gain)
    assert abs(value) * (abs(np.mean(base[:length])) + 1e-6) == pytest.approx(abs(gain))


@given(curves, st.sampled_from([0.5, 2.0, 4.0]))
def test_the_unit_of_the_score_does_not_matter(base, unit):
    base = base + 2001  # well above 0, where the improvement is defined without epsilon
    x = base[::-1] + 7
    before = relative_improvement(x, base, eps=0.0)
    assert relative_improvement(unit * x, unit * base, eps=0.0) == pytest.approx(before)


def test_human_normalised():
    assert human_normalised(30.0, random=10.0, human=50.0) == 0.5  # 20 / 40
    assert human_normalised([10.0, 50.0, 0.0], 10.0, 50.0).tolist() == [0.0, 1.0, -0.25]
    # A human worse than chance: more is better all the same, (60 - 50) / |10 - 50|.
    assert human_normalised(60.0, random=50.0, human=10.0) == 0.25


def test_human_normalised_median():
    curves = {
        "a": [[0.0, 10.0, 99.0], [0.0, 10.0, 99.0]],  # (s - 0) / 10:   0, 1; two seeds
        "b": [4.0, 3.0],  # (s - 2) / 4:    0.5, 0.25; the shortest
        "c": [-20.0, -30.0, 0.0],  # (s + 20) / 10:  0, -1
        "no human": [1e9, 1e9],
        "no random": [1e9, 1e9],
        "unknown": [1e9],  # left out, so its length does not matter
    }
    random = {"a": 0.0, "b": 2.0, "c": -20.0, "no human": 1.0, "unknown": 1.0}
    human = {"a": 10.0, "b": 6.0, "c": -10.0, "no random": 1.0, "unknown": NAN, "not played": 1.0}
    result = human_normalised_median(curves, random, human)
    assert result.median.tolist() == [0.0, 0.25]
    assert result.games == ["a", "b", "c"]
    assert result.left_out == ["no human", "no random", "unknown"]


def test_the_human_normalised_median_is_of_the_games_with_a_score():
    curves = {"a": [NAN, 1.0, NAN], "b": [NAN, 3.0, 5.0]}
    result = human_normalised_median(curves, {"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0})
    assert result.median == pytest.approx([NAN, 2.0, 5.0], nan_ok=True)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: final_score([]), r"not \[0\]"),
        (lambda: average_score(3.0), r"\[iterations\]"),
        (lambda: average_score(np.zeros((2, 2, 2))), r"\[seeds, iterations\]"),
        (lambda: final_score([1.0, 2.0], last=3), "last 3 of 2"),
        (lambda: final_score([1.0, 2.0], last=0), "last 0 of 2"),
        (lambda: relative_improvement([NAN, 1.0], [1.0, NAN]), "no iteration"),
        (lambda: relative_improvement_over_games({"a": [1.0]}, {"b": [1.0]}), "no game that both"),
        (lambda: human_normalised(1.0, 2.0, 2.0), "cannot be normalised"),
        (lambda: human_normalised_median({"a": [1.0]}, {"a": 0.0}, {}), "no game with both"),
    ],
)
def test_what_cannot_be_is_refused(call, words):
    with pytest.raises(BadInputError, match=words):
        call()
