"""Random network distillation: moments against numpy over long streams, the bonus and one update by numpy."""

from __future__ import annotations

import math
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sail import convolution
from sail.exploration.rnd import FURTHEST, LEAK, RND, Curiosity, Moments
from sail.networks import INITIALISERS

STEP = jax.jit(lambda moments, values, counts: moments.with_more(values, counts))


def test_moments_by_hand() -> None:
    moments = Moments.of_nothing((2,))
    moments = moments.with_more(jnp.array([[1.0, 10.0], [3.0, 10.0], [99.0, 99.0]]), jnp.array([1, 1, 0]))
    assert moments.number == 2
    np.testing.assert_allclose(moments.mean, [2, 10])
    np.testing.assert_allclose(moments.variance, [1, 0])
    moments = moments.with_more(jnp.array([[5.0, 13.0]]), jnp.array([True]))
    # 1, 3, 5: mean 3, variance 8/3. 10, 10, 13: mean 11, variance (1 + 1 + 4) / 3 = 2.
    np.testing.assert_allclose(moments.mean, [3, 11], rtol=1e-6)
    np.testing.assert_allclose(moments.variance, [8 / 3, 2], rtol=1e-6)
    np.testing.assert_allclose(moments.standardise(jnp.array([3.0, 11 + np.sqrt(2)])), [0, 1], atol=1e-6)


@pytest.mark.parametrize("offset, drift", [(0.0, 0.0), (200.0, 0.0), (-3.0, 1e-4)])
def test_moments_of_a_long_stream_are_those_of_numpy(offset: float, drift: float) -> None:
    """Two million values in rounds of 64, as many as two million steps would bring; pixels reach 255."""
    rng = np.random.default_rng(0)
    rounds, size = 31_250, 64
    values = rng.normal(offset, 3.0, (rounds, size)) + drift * np.arange(rounds)[:, None]
    counts = rng.random((rounds, size)) < 0.9

    @jax.jit
    def run(values: Any, counts: Any) -> Any:
        return jax.lax.scan(lambda m, x: (m.with_more(*x), None), Moments.of_nothing(), (values, counts))[0]

    moments = run(jnp.asarray(values, jnp.float32), jnp.asarray(counts))
    kept = values.astype(np.float32).astype(np.float64)[counts]
    assert moments.number == len(kept)
    np.testing.assert_allclose(moments.mean, kept.mean(), rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(moments.variance, kept.var(), rtol=1e-3)


def test_moments_of_a_very_long_stream_go_on_moving() -> None:
    """As after 2^24 rows of a mean of 100 and a variance of 4; then everything is 110."""

    @partial(jax.jit, static_argnums=(0, 1))
    def then_110(rows: int, times: int) -> Moments:
        long_ago = Moments(*jnp.array([2.0**24, 100.0, 4.0]))
        more = jnp.full(rows, 110.0), jnp.ones(rows)
        return jax.lax.scan(lambda m, _: (m.with_more(*more), None), long_ago, None, times)[0]

    # One row at a time weighs 1 / 2^18: all that came before is left (1 - 2^-18)^1000.
    np.testing.assert_allclose(then_110(1, 1000).mean - 100, 10 * (1 - (1 - 2.0**-18) ** 1000), rtol=0.02)
    np.testing.assert_allclose(then_110(8, 1000).mean - 100, 10 * (1 - (1 + 2.0**-18) ** -1000), rtol=0.02)
    # 2^21 rows in rounds of 64 leave the past a weight of (1 / (1 + 2^-15))^(2^15) = 1 / e; of the variance that times
    # 4, and 1/e (1 - 1/e) of the squared difference of the two means.
    moments, past = then_110(64, 2**15), math.exp(-1)
    assert moments.number == 2**21 + 64
    np.testing.assert_allclose(moments.mean, 110 - 10 * past, rtol=1e-4)
    np.testing.assert_allclose(moments.variance, 4 * past + 100 * past * (1 - past), rtol=1e-3)


@pytest.mark.parametrize("rows, past", [(1, 2.0**18), (8, 2.0**18), (64, 2.0**15)])
def test_moments_follow_a_mean_that_moves_by_less_than_its_deviation(rows: int, past: float) -> None:
    """From 0.5 to 0.52 with a deviation of 0.025, however few rows come at a time."""
    rounds = 100_000
    new = 0.52 + 0.025 * jax.random.normal(jax.random.key(0), (rounds, rows))
    begun = Moments(*jnp.array([2.0**24, 0.5, 0.025**2]))
    moments, _ = jax.lax.scan(lambda m, x: (m.with_more(x, jnp.ones(rows)), None), begun, new)
    np.testing.assert_allclose(moments.mean - 0.5, 0.02 * (1 - math.exp(-rounds / past)), rtol=0.05)


def test_a_round_of_which_nothing_counts_changes_nothing() -> None:
    begun = Moments(*jnp.array([2.0**21, 100.0, 4.0]))
    after = begun.with_more(jnp.array([7.0, 9.0]), jnp.zeros(2))
    assert [float(x) for x in after] == [2.0**21, 100.0, 4.0]


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.floats(-100, 100), st.booleans()), min_size=3, max_size=3), min_size=1, max_size=8)
)
def test_moments_do_not_depend_on_how_a_stream_is_cut(batches: list[list[tuple[float, bool]]]) -> None:
    moments = Moments.of_nothing()
    for batch in batches:
        moments = STEP(moments, jnp.array([value for value, _ in batch]), jnp.array([kept for _, kept in batch]))
    kept = np.array([value for batch in batches for value, counts in batch if counts], np.float32)
    assert moments.number == len(kept)
    np.testing.assert_allclose(moments.mean, kept.mean() if len(kept) else 0, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(moments.variance, kept.var() if len(kept) else 0, rtol=1e-3, atol=2e-2)


def numpy_layers(network: Any, x: np.ndarray) -> list[np.ndarray]:
    """What each layer of an embedding of vectors puts out."""
    first = x @ np.asarray(network.seen.weight, np.float64) + np.asarray(network.seen.bias)
    outputs = [np.where(first > 0, first, LEAK * first)]
    for i, layer in enumerate(network.layers):
        y = outputs[-1] @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias)
        outputs.append(y if i == len(network.layers) - 1 else np.maximum(y, 0))
    return outputs


def whitened(frames: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return np.clip((frames - mean) / np.sqrt(variance + 1e-8), -FURTHEST, FURTHEST)


def seen_before() -> tuple[RND, Curiosity]:
    """Vectors of 5, after two rounds."""
    rnd = RND((5,), "mlp", scale=0.5, features=7)
    state = rnd.init(jax.random.key(0))
    for i in range(2):
        frames = jax.random.normal(jax.random.key(i + 1), (16, 5)) * 3 + 1
        state, _ = rnd.look(state, frames, jnp.ones(16))
    return rnd, state


def test_the_bonus_is_what_numpy_says() -> None:
    rnd, state = seen_before()
    rng = np.random.default_rng(5)
    frames = rng.normal(1, 3, (6, 5)).astype(np.float32)
    frames[0] += 1_000  # further than FURTHEST
    counts = np.array([1, 1, 0, 1, 1, 1])
    after, bonus = rnd.look(state, jnp.asarray(frames), jnp.asarray(counts))
    # All that ever counted, this round's too, whitens this round; then errors likewise.
    before = np.concatenate([np.asarray(jax.random.normal(jax.random.key(i + 1), (16, 5)) * 3 + 1) for i in range(2)])
    everything = np.concatenate([before, frames[counts == 1]]).astype(np.float64)
    x = whitened(frames.astype(np.float64), everything.mean(0), everything.var(0))
    assert np.abs(x).max() <= FURTHEST
    error = ((numpy_layers(state.predictor, x)[-1] - numpy_layers(state.target, x)[-1]) ** 2).mean(1)
    old = state.errors
    number, kept = float(old.number), error[counts == 1]
    mean = (float(old.mean) * number + kept.sum()) / (number + 5)
    square = ((float(old.variance) + float(old.mean) ** 2) * number + (kept**2).sum()) / (number + 5)
    np.testing.assert_allclose(after.errors.mean, mean, rtol=1e-4)
    np.testing.assert_allclose(after.errors.variance, square - mean**2, rtol=1e-3)
    np.testing.assert_allclose(bonus, 0.5 * (error - mean) / np.sqrt(square - mean**2 + 1e-8), rtol=2e-3, atol=2e-4)
    assert jax.tree.all(jax.tree.map(jnp.array_equal, after.predictor, state.predictor))  # looking teaches nothing


def test_one_update_is_adam_on_the_mean_squared_error() -> None:
    rnd, state = seen_before()
    frames = np.random.default_rng(7).normal(1, 3, (8, 5)).astype(np.float32)
    after = rnd.learn(state, rnd.lesson(state, jnp.asarray(frames)))
    x = whitened(frames.astype(np.float64), np.asarray(state.frames.mean), np.asarray(state.frames.variance))
    outputs = numpy_layers(state.predictor, x)
    wanted = numpy_layers(state.target, x)[-1]
    # The mean over 8 frames of the mean over 7 features, backwards through the last layer.
    slope = 2 * (outputs[-1] - wanted) / (8 * 7)
    gradient = outputs[-2].T @ slope
    # Adam's first step divides by the root of the squared gradient: its two corrections cancel what it averages.
    expected = np.asarray(state.predictor.layers[-1].weight) - 1e-4 * gradient / (np.abs(gradient) + 1e-5)
    np.testing.assert_allclose(after.predictor.layers[-1].weight, expected, rtol=1e-5, atol=2e-7)
    bias = slope.sum(0)
    expected = np.asarray(state.predictor.layers[-1].bias) - 1e-4 * bias / (np.abs(bias) + 1e-5)
    np.testing.assert_allclose(after.predictor.layers[-1].bias, expected, rtol=1e-4, atol=2e-7)
    for part in ("target", "frames", "errors"):
        assert jax.tree.all(jax.tree.map(jnp.array_equal, getattr(after, part), getattr(state, part)))


def test_what_is_seen_often_becomes_boring() -> None:
    rnd = RND((5,), "mlp", scale=1.0, features=16, learning_rate=1e-3)
    state = rnd.init(jax.random.key(0))
    # Two kinds of frames; moments know both, but the predictor is only taught the first.
    known, new = jnp.eye(5)[:2].repeat(8, 0), jnp.eye(5)[3:].repeat(8, 0)
    for _ in range(20):
        state, _ = rnd.look(state, jnp.concatenate([known, new]), jnp.ones(32))
    learn = jax.jit(rnd.learn)
    for _ in range(300):
        state = learn(state, rnd.lesson(state, known))
    _, bonus = rnd.look(state, jnp.concatenate([known, new]), jnp.ones(32))
    assert bonus[:16].max() < -0.5 and bonus[16:].min() > bonus[:16].max() + 0.5


@pytest.mark.parametrize("shape, kind", [((44, 44), "nature"), ((44, 44), "dopamine"), ((3, 2), "mlp")])
def test_images_and_vectors(shape: tuple[int, ...], kind: str) -> None:
    rnd = RND(shape, kind, scale=1.0, features=12)
    state = jax.jit(rnd.init)(jax.random.key(3))
    frames = jax.random.randint(jax.random.key(4), (9, *shape), 0, 256).astype(jnp.uint8)
    state, bonus = jax.jit(rnd.look)(state, frames, jnp.ones(9))
    assert bonus.shape == (9,) and bonus.dtype == jnp.float32 and np.isfinite(bonus).all()
    # One round alone: its errors are standardised by their own moments.
    np.testing.assert_allclose([bonus.mean(), bonus.std()], [0, 1], atol=1e-3)
    # Three dense layers after what sees in the predictor, one in the target (Burda et al.), orthogonal, no biases yet.
    assert (len(state.target.layers), len(state.predictor.layers)) == (1, 3)
    assert state.target.layers[0].weight.shape[1] == 12
    last = np.asarray(state.predictor.layers[-1].weight, np.float64)
    np.testing.assert_allclose(last.T @ last, 2 * np.eye(12), atol=1e-5)  # a gain of sqrt(2)
    if kind != "mlp":
        assert state.target.layers[0].weight.shape[0] == convolution.num_features((1, *shape), kind)
    learned = jax.jit(lambda state, frames: rnd.learn(state, rnd.lesson(state, frames)))(state, frames)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), learned.predictor, state.predictor)
    assert sum(jax.tree.leaves(changed)) == len(jax.tree.leaves(changed))


def test_networks_of_several_seeds_are_factorised_one_by_one() -> None:
    """At once, on two cores, jaxlib 0.10.2 can wait for ever (seen with two seeds and --rnd)."""

    def make(key: jax.Array) -> jax.Array:
        return INITIALISERS["orthogonal"](key, (5, 3))

    keys = jax.random.split(jax.random.key(0), 4)
    several = jax.jit(jax.vmap(make))
    np.testing.assert_array_equal(several(keys), np.stack([jax.jit(make)(key) for key in keys]))
    batched = re.findall(r'@lapack_sgeqrf.*?num_batch_dims = "(\d)"', several.lower(keys).as_text())
    assert batched == ["0"]
