"""The aggregates against numbers worked out by hand, their properties, and the bootstrap against what it must do."""

import itertools
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import mannwhitneyu, trim_mean

from sail.analysis import statistics
from sail.analysis.statistics import (
    AGGREGATES,
    Interval,
    bootstrap,
    can_resample,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    runs_per_task,
    wilson,
)
from sail.errors import BadInputError

NAN = np.nan
# Two runs of three tasks; the tasks' means are 2, 0.25 and 6.
COMPLETE = np.array([[1.0, 0.5, 4.0], [3.0, 0.0, 8.0]])
# The same and a third run of the first task only; the tasks' means are 4, 0.25 and 6.
RAGGED = np.array([[1.0, 0.5, NAN], [3.0, NAN, 4.0], [8.0, 0.0, 8.0]])
SCORES = st.floats(-100, 100, width=16)


@st.composite
def tables(draw, missing=True, elements=SCORES):
    """Tables [runs, tasks] in which every task has a run."""
    shape = (draw(st.integers(1, 5)), draw(st.integers(1, 6)))
    scores = draw(hnp.arrays(float, shape, elements=elements))
    if missing:
        gone = draw(hnp.arrays(bool, shape))
        gone[draw(st.integers(0, shape[0] - 1))] = False
        scores[gone] = NAN
    return scores


# By hand.


@pytest.mark.parametrize(
    ("statistic", "of_complete", "of_ragged"),
    [
        (mean, 8.25 / 3, 10.25 / 3),  # (2 + 0.25 + 6) / 3;  (4 + 0.25 + 6) / 3
        (median, 2.0, 4.0),
        # 6 runs, 6 // 4 = 1 goes at either end: 0 | 0.5 1 3 4 | 8.  7 runs, 1 again: 0 | 0.5 1 3 4 8 | 8.
        (iqm, 8.5 / 4, 16.5 / 5),
        # Cut at 1: (1 + 1 + 0.5 + 0 + 1 + 1) / 6 = 0.75.  Task by task: (1 + 0.25 + 1) / 3 = 0.75.
        (optimality_gap, 0.25, 0.25),
        # Cut at 2: (1.5 + 0.25 + 2) / 3 = 1.25.  Ragged: ((1 + 2 + 2) / 3 + 0.25 + 2) / 3 = 47 / 36.
        (partial(optimality_gap, gamma=2.0), 0.75, 2 - 47 / 36),
    ],
    ids=["mean", "median", "iqm", "gap", "gap to 2"],
)
def test_aggregates(statistic, of_complete, of_ragged):
    assert statistic(COMPLETE) == pytest.approx(of_complete, rel=1e-15)
    assert statistic(RAGGED) == pytest.approx(of_ragged, rel=1e-15)
    assert isinstance(statistic(RAGGED), float)
    both = np.stack([np.vstack([COMPLETE, [NAN] * 3]), RAGGED])  # a leading axis, with 6 and with 7 runs
    assert statistic(both) == pytest.approx([of_complete, of_ragged], rel=1e-15)


def test_probability_of_improvement():
    # Task 1: of 1, 2 against 1, 0: a draw, a win, a win, a win: 3.5 / 4. Task 2: 5 and 7 against 6: 1 / 2.
    x, y = np.array([[1.0, 5.0], [2.0, 7.0]]), np.array([[1.0, 6.0], [0.0, NAN]])
    assert probability_of_improvement(x, y) == (3.5 / 4 + 1 / 2) / 2
    assert probability_of_improvement(y, x) == (0.5 / 4 + 1 / 2) / 2
    assert probability_of_improvement(np.stack([x, y]), np.stack([y, y])).tolist() == [0.6875, 0.5]


def test_performance_profile():
    # Above, not at, the threshold. Complete, at 1: task by task 1/2, 0, 2/2. At -1: all. At 8: none.
    assert performance_profile(COMPLETE, [-1.0, 1.0, 8.0]).tolist() == [1.0, 0.5, 0.0]
    # Ragged, at 1: 2/3, 0/2, 2/2, each task with the weight of a third; of all runs pooled it would be 4/7.
    assert performance_profile(RAGGED, [1.0]) == pytest.approx([5 / 9])
    assert performance_profile(np.stack([COMPLETE] * 4), [0, 1]).shape == (4, 2)


def test_wilson():
    # 1 of 2 with z = 1.96, z^2 = 3.8415: centre (0.5 + 0.9604) / 2.9207 = 0.5, by symmetry;
    # reach 1.96 * sqrt(0.125 + 0.2401) / 2.9207 = 0.4055.
    assert wilson(1, 2) == pytest.approx((0.5, 0.0945, 0.9055), abs=1e-4)
    # 0 of n: from 0 to z^2 / (n + z^2) = 3.8415 / 13.8415.
    assert wilson(0, 10) == (0.0, 0.0, pytest.approx(0.27754, abs=1e-5))
    assert wilson(10, 10) == (1.0, pytest.approx(1 - 0.27754, abs=1e-5), 1.0)


def test_wilson_matches_the_score_test():
    # It is where the score test |p - share| = z * sqrt(p * (1 - p) / n) turns.
    for tried, solved in itertools.product([3, 20], [1, 2]):
        share, *bounds = wilson(solved, tried)
        for p in bounds:
            assert abs(p - share) == pytest.approx(1.959964 * np.sqrt(p * (1 - p) / tried), rel=1e-6)


# Properties.


@given(tables(missing=False))
def test_the_interquartile_mean_is_scipys(scores):
    assert iqm(scores) == pytest.approx(trim_mean(scores, 0.25, axis=None), rel=1e-12, abs=1e-12)


@given(tables())
def test_the_interquartile_mean_pools_the_runs_there_are(scores):
    there = scores[~np.isnan(scores)]
    assert iqm(scores) == pytest.approx(trim_mean(there, 0.25), rel=1e-12, abs=1e-12)


@given(tables(), st.randoms(use_true_random=False))
def test_order_does_not_matter_and_shifts_come_through(scores, random):
    shuffled = scores[random.sample(range(len(scores)), len(scores))]
    shuffled = shuffled[:, random.sample(range(scores.shape[1]), scores.shape[1])]
    for statistic in AGGREGATES.values():
        assert statistic(shuffled) == pytest.approx(statistic(scores), rel=1e-9, abs=1e-9)
    for statistic in (mean, median, iqm):
        assert statistic(scores + 5) == pytest.approx(statistic(scores) + 5, rel=1e-9, abs=1e-9)
    assert optimality_gap(scores + 5, 6.0) == pytest.approx(optimality_gap(scores, 1.0), abs=1e-9)


@given(tables(elements=st.integers(0, 3)), tables(elements=st.integers(0, 3)))
def test_probability_of_improvement_is_mann_whitneys(x, y):
    tasks = min(x.shape[1], y.shape[1])
    x, y = x[:, :tasks], y[:, :tasks]
    by_task = []
    for ours, theirs in zip(x.T, y.T, strict=True):
        ours, theirs = ours[~np.isnan(ours)], theirs[~np.isnan(theirs)]
        by_task.append(mannwhitneyu(ours, theirs, method="asymptotic").statistic / (len(ours) * len(theirs)))
    assert probability_of_improvement(x, y) == pytest.approx(np.mean(by_task))
    assert probability_of_improvement(x, y) + probability_of_improvement(y, x) == pytest.approx(1)
    assert probability_of_improvement(x, x) == pytest.approx(0.5)


@given(tables())
def test_a_profile_falls_from_one_to_zero_over_the_area_of_the_mean(scores):
    thresholds = np.arange(-101, 102, 0.5)
    profile = performance_profile(scores, thresholds)
    assert (profile[0], profile[-1]) == (1, 0)
    assert (np.diff(profile) <= 1e-12).all()
    # The area under it, from the first threshold on, is the mean, to within a step.
    assert profile.sum() * 0.5 + thresholds[0] == pytest.approx(mean(scores), abs=0.5 + 1e-9)


@given(st.integers(1, 50).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_wilson_interval_holds_its_share_and_mirrors(solved_and_tried):
    solved, tried = solved_and_tried
    value, low, high = wilson(solved, tried)
    assert 0 <= low <= value <= high <= 1 and low < high
    assert wilson(tried - solved, tried) == pytest.approx((1 - value, 1 - high, 1 - low))
    assert wilson(solved, tried, 0.5).low >= low


# The bootstrap.


@settings(max_examples=30)
@given(tables(), st.integers(0, 9))
def test_resamples_draw_only_a_tasks_own_runs_and_as_many(scores, seed):
    drawn = statistics._resample(scores, 40, np.random.default_rng(seed))
    assert drawn.shape == (40, *scores.shape)
    assert (runs_per_task(drawn) == runs_per_task(scores)).all()
    for task in range(scores.shape[1]):
        there = scores[:, task][~np.isnan(scores[:, task])]
        values = drawn[:, :, task][~np.isnan(drawn[:, :, task])]
        assert set(values) <= set(there)


def test_the_bootstrap_by_hand():
    # One task with the runs 0 and 1. The mean of two draws is 0, 0.5, 1 with probability 1/4, 1/2, 1/4: at 95 % the
    # interval is all of it, at 40 % (the quantiles 0.3 and 0.7) only the middle.
    scores = np.array([[0.0], [1.0]])
    assert bootstrap(mean, scores, reps=2000) == Interval(0.5, 0.0, 1.0)
    assert bootstrap(mean, scores, reps=2000, coverage=0.4) == Interval(0.5, 0.5, 0.5)


def test_tasks_are_drawn_independently_of_each_other_and_agents_too():
    # Were run 0 (or run 1) drawn for both tasks together, their sum would be 1 always, and its spread 0.
    # Independent, a mean over tasks of four draws of 0 or 1 has the variance (1/4) / 4.
    drawn = statistics._resample(np.array([[0.0, 1.0], [1.0, 0.0]]), 20_000, np.random.default_rng(0))
    assert mean(drawn).var() == pytest.approx(1 / 16, rel=0.05)
    # An agent against itself: the difference of two independent means, variance 2 * (1/4) / 20, so 95 % within 0.31.
    scores = np.tile([[0.0], [1.0]], (10, 1))
    apart = bootstrap(lambda x, y: mean(x) - mean(y), scores, scores, reps=20_000)
    assert apart == pytest.approx((0, -0.31, 0.31), abs=0.045)


def test_the_interval_covers_a_known_mean_about_as_often_as_it_says():
    # Means of 12 runs x 10 tasks. Resamples have (n - 1) / n of the variance, so a little less than 95 %.
    random = np.random.default_rng(1)
    intervals = [bootstrap(mean, random.normal(size=(12, 10)), reps=500, seed=random) for _ in range(300)]
    covered = np.mean([low <= 0 <= high for _, low, high in intervals])
    assert 0.89 < covered < 0.98


@settings(max_examples=25, deadline=None)
@given(tables(), st.sampled_from(sorted(AGGREGATES)))
def test_an_interval_is_ordered_repeatable_and_stays_within_the_scores(scores, name):
    first, again = (bootstrap(AGGREGATES[name], scores, reps=200, seed=3) for _ in range(2))
    assert first == again
    value, low, high = first
    assert low <= high and value == AGGREGATES[name](scores)
    if name != "optimality_gap":
        assert np.nanmin(scores) - 1e-9 <= low and high <= np.nanmax(scores) + 1e-9


def test_bands_and_pairs():
    thresholds = [0.25, 2.0, 9.0]
    band = bootstrap(partial(performance_profile, thresholds=thresholds), RAGGED, reps=500)
    assert band.value.tolist() == performance_profile(RAGGED, thresholds).tolist()
    assert all(part.shape == (3,) for part in band)
    assert (band.low <= band.value).all() and (band.value <= band.high).all() and band.high[2] == 0
    better = bootstrap(probability_of_improvement, COMPLETE + 100, RAGGED, reps=500)
    assert better == Interval(1.0, 1.0, 1.0)
    either = bootstrap(probability_of_improvement, COMPLETE, RAGGED, reps=500)
    assert either.low < either.value < either.high


def test_one_run_per_task_gives_no_interval():
    one = np.array([[1.0, NAN, 3.0], [NAN, 5.0, NAN]])
    assert not can_resample(one) and not can_resample(one, one[:, :1])
    assert bootstrap(mean, one) == Interval(3.0, 3.0, 3.0)
    assert can_resample(RAGGED) and can_resample(one, RAGGED)
    assert runs_per_task(RAGGED).tolist() == [3, 2, 2]
    against_one = bootstrap(probability_of_improvement, COMPLETE[:, :1], [[2.0]], reps=200)
    assert against_one == Interval(0.5, 0.0, 1.0)  # the runs 1 and 3 against 2: the one agent can be resampled


def test_the_chunks_cover_all_resamples_in_little_memory():
    sizes = [len(x) for x, _ in statistics._resamples([COMPLETE, RAGGED], 40_000, seed=0)]
    # 2 * 3 pairs of runs x 3 tasks = 18 scores a resample, 2^18 // 18 = 14563 resamples a chunk.
    assert sizes == [14_563, 14_563, 10_874]
    tracemalloc.start()
    bootstrap(probability_of_improvement, *np.random.default_rng(0).normal(size=(2, 50, 16)), reps=300)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mean([1.0, 2.0]), "a table"),
        (lambda: mean(np.empty((0, 3))), "not empty"),
        (lambda: iqm([[1.0, NAN, 2.0], [1.0, NAN, 2.0]]), r"columns \[1\]"),
        (lambda: median([[np.inf, 1.0]]), "finite"),
        (lambda: probability_of_improvement(COMPLETE, COMPLETE[:, :2]), "the same tasks, not 3 and 2"),
        (lambda: performance_profile([[NAN]], [0.0]), "left out"),
        (lambda: bootstrap(mean), "needs scores"),
        (lambda: bootstrap(mean, COMPLETE, reps=0), "at least one resample"),
        (lambda: bootstrap(mean, COMPLETE, coverage=95), "coverage"),
        (lambda: bootstrap(mean, COMPLETE[None]), "one table"),
        (lambda: wilson(3, 2), "3 solved out of 2"),
        (lambda: wilson(0, 0), "0 solved out of 0"),
    ],
)
def test_what_cannot_be_is_refused(call, words):
    with pytest.raises(BadInputError, match=words):
        call()


def test_agrees_with_rliable():
    pytest.importorskip("rliable")
    from rliable import library, metrics

    np.random.seed(0)  # theirs draws from numpy's global generator
    random = np.random.default_rng(0)
    x, y = random.normal(0.5, 1, (5, 16)), random.normal(0.3, 1, (4, 16))
    thresholds = np.linspace(-1, 2, 7)
    pairs = [
        (mean, metrics.aggregate_mean, (x,)),
        (median, metrics.aggregate_median, (x,)),
        (iqm, metrics.aggregate_iqm, (x,)),
        (optimality_gap, metrics.aggregate_optimality_gap, (x,)),
        (probability_of_improvement, metrics.probability_of_improvement, (x, y)),
    ]
    for ours, theirs, agents in pairs:
        value, interval = library.get_interval_estimates(
            {"x": agents[0] if len(agents) == 1 else list(agents)}, lambda *s, f=theirs: np.array([f(*s)]), reps=500
        )
        mine = bootstrap(ours, *agents)
        assert mine.value == pytest.approx(value["x"][0], rel=1e-12)
        # An end of theirs is random: a tenth of the width is about three of its standard errors at 500 resamples.
        assert mine[1:] == pytest.approx(interval["x"][:, 0], abs=(mine.high - mine.low) / 10)
    profile, band = library.create_performance_profile({"x": x}, thresholds, reps=500)
    mine = bootstrap(partial(performance_profile, thresholds=thresholds), x)
    assert mine.value == pytest.approx(profile["x"], rel=1e-12)
    assert np.stack(mine[1:]) == pytest.approx(band["x"], abs=1 / 80 + 1e-9)  # to within one run of the 80
