"""Prioritised draws and intrinsic rewards: against plain Python in float64, hand-worked numbers, and statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sail.replay import (
    TERMINATED,
    TRUNCATED,
    UNKNOWN_RETURN,
    Ring,
    Slots,
    Steps,
    cut_off,
    draw_in_proportion,
    eligible,
    extend,
    fill_returns,
    gather,
    importance,
    init,
    reprioritise,
    sample,
)
from sail.replay.priorities import LEAST, WIDTH

TOLERANCE = dict(rtol=1e-5, atol=1e-12)
NUM_ENVS, LENGTH, BLOCK = 3, 16, 3  # of all rings here, so that few programs are compiled
many = partial(settings, deadline=None, derandomize=True)

draw_jit = jax.jit(draw_in_proportion, static_argnames="num")
extend_jit = jax.jit(extend)
fill_jit = jax.jit(fill_returns, static_argnames="total")
eligible_jit = jax.jit(eligible, static_argnames=("n_step", "stack"))
sample_jit = jax.jit(sample, static_argnames=("num", "n_step", "finished_only", "stack"))
gather_jit = jax.jit(gather, static_argnames="n_step")
reprioritise_jit = jax.jit(reprioritise, static_argnames="exponent")


def assert_in_proportion(counts: np.ndarray, weights: np.ndarray) -> None:
    """Chi-square against the exact distribution; nothing of weight 0, and no draws more regular than chance makes."""
    assert counts[weights == 0].sum() == 0
    counts, weights = counts[weights > 0], weights[weights > 0].astype(np.float64)
    order = np.argsort(weights)
    expected, counts = (weights / weights.sum() * counts.sum())[order], counts[order]
    # The test wants five of everything: what is expected less often counts as one, together with the next.
    rare = (expected < 5).sum() + 1
    expected, counts = ([x[:rare].sum(), *x[rare:]] for x in (expected, counts))
    # Chance alone fails this once in fifty thousand keys, and the keys are fixed.
    assert 1e-5 < stats.chisquare(counts, expected).pvalue < 1 - 1e-5


# Drawing in proportion ------------------------------------------------------------------------------------------------


# Optimised as it is for users, since it is rounding that is tested.
@partial(jax.jit, static_argnames="times", compiler_options={"xla_backend_optimization_level": 3})
def draw_often(weights: jax.Array, key: jax.Array, times: int) -> jax.Array:
    """4096 draws, so many times: all at once would take too much memory."""
    keys = jax.random.split(key, times)
    return jax.lax.map(lambda key: draw_in_proportion(weights, key, 4096)[0], keys).ravel()


def make_weights(kind: str, size: int) -> np.ndarray:
    rng = np.random.default_rng(size)
    weights = {
        "random": rng.uniform(0.1, 1.0, size),
        "with zeros": rng.random(size) * (np.arange(size) % 3 == 1),
        "six orders of magnitude": 10.0 ** rng.uniform(-6.0, 0.0, size),
        "one outweighs a thousand": np.where(np.arange(size) == size // 2, 1000.0, 1.0),
    }
    return weights[kind].astype(np.float32)


# Less than one sum, exactly one, eight of them, and the last of them partial.
@pytest.mark.parametrize("size", (7, WIDTH, 8 * WIDTH, 5000))
@pytest.mark.parametrize("kind", ("random", "with zeros", "six orders of magnitude", "one outweighs a thousand"))
def test_places_are_drawn_in_proportion_to_their_weights(kind, size):
    weights = make_weights(kind, size)
    places = np.asarray(draw_often(weights, jax.random.key(size), 32))
    assert_in_proportion(np.bincount(places, minlength=size), weights)


@pytest.mark.parametrize("size", (1, 7, WIDTH, 2500))
def test_a_place_of_weight_0_is_never_drawn(size):
    """Little weight among many zeros: at the first place, at the last one, around the borders of the sums, anywhere."""
    borders = [place for place in (0, size - 1, WIDTH - 1, WIDTH, 2 * WIDTH) if place < size]
    place = st.one_of(st.sampled_from(borders), st.integers(0, size - 1))
    weight = st.sampled_from([1e-10, 1e-5, 0.1, 1.0, 3.0, 1e3])

    @many(max_examples=60)
    @given(st.dictionaries(place, weight, min_size=1, max_size=8), st.integers(0, 2**31))
    def check(chosen, seed):
        weights = np.zeros(size, np.float32)
        weights[list(chosen)] = list(chosen.values())
        places, drawn, some = draw_jit(weights, jax.random.key(seed), 256)
        assert some
        assert set(np.asarray(places).tolist()) <= set(chosen)
        np.testing.assert_array_equal(drawn, weights[np.asarray(places)])

    check()


@pytest.mark.parametrize("apart", (1, WIDTH), ids=("within sums", "whole sums"))
def test_a_place_of_weight_0_is_not_drawn_where_a_running_sum_is_rounded(apart):
    """In 32 bits, a running sum of thousands may grow, or fall, by some ulp where nothing is added.

    That is how blocks are added up in parallel. It comes to some 4e-6 of this sum, and a million are drawn.
    """
    rng = np.random.default_rng(2832)
    weights = np.zeros((8192, apart), np.float32)
    weights[:, apart // 2] = rng.random(8192) * (rng.random(8192) < 0.3)
    places = np.asarray(draw_often(weights.ravel(), jax.random.key(3), 256))
    assert np.all(weights.ravel()[places] > 0)


@pytest.mark.parametrize("size", (1, 7, WIDTH, 2500))
def test_without_any_weight_the_draw_says_so(size):
    places, drawn, some = draw_jit(np.zeros(size, np.float32), jax.random.key(0), 256)
    assert not some
    assert np.all((np.asarray(places) >= 0) & (np.asarray(places) < size)) and np.all(np.asarray(drawn) == 0)


def test_the_same_key_draws_the_same_and_another_key_does_not():
    weights = make_weights("random", 2500)
    first, again, other = (np.asarray(draw_jit(weights, jax.random.key(seed), 256)[0]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)


def test_draws_are_independent_of_each_other():
    """Each pair of neighbouring draws is as likely as the product says, a place with itself included."""
    places = np.array([0, 5, WIDTH, 2 * WIDTH + 2])  # two in one sum, two in others
    weights = np.zeros(2500, np.float32)
    weights[places] = [1, 2, 3, 4]
    drawn = np.searchsorted(places, np.asarray(draw_often(weights, jax.random.key(5), 16))).reshape(-1, 2)
    pairs = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16)
    assert_in_proportion(pairs, np.outer([1, 2, 3, 4], [1, 2, 3, 4]).ravel())


@pytest.mark.parametrize("size", (7, 2500))
def test_vmap_over_seeds_draws_what_each_seed_draws_alone(size):
    weights = np.stack([np.roll(make_weights("with zeros", size), shift) for shift in range(3)])
    keys = jax.random.split(jax.random.key(6), 3)
    together = jax.jit(jax.vmap(partial(draw_in_proportion, num=256)))(weights, keys)
    alone = [draw_jit(*inputs, 256) for inputs in zip(weights, keys, strict=True)]
    jax.tree.map(lambda *x: np.testing.assert_array_equal(x[0], np.stack(x[1:])), together, *alone)


# A ring and a list, round by round ------------------------------------------------------------------------------------


@dataclass
class Kept:
    episode: int
    begins: int  # where in the list its episode does
    closing: bool
    priority: float


class PlainReplay:
    """For each environment, a list of all it ever wrote. The ring holds the newest LENGTH of it."""

    def __init__(self) -> None:
        self.top = 1.0
        self.rows: list[list[Kept]] = [[] for _ in range(NUM_ENVS)]
        self.begins, self.episode = [0] * NUM_ENVS, [0] * NUM_ENVS

    def add(self, env: int, ends: bool) -> None:
        row, begins, episode = self.rows[env], self.begins[env], self.episode[env]
        row.append(Kept(episode, begins, False, self.top))
        if ends:
            row.append(Kept(episode, begins, True, 0.0))
            self.begins[env], self.episode[env] = len(row), episode + 1

    def held(self, env: int) -> range:
        return range(max(len(self.rows[env]) - LENGTH, 0), len(self.rows[env]))

    def priorities(self) -> np.ndarray:
        found = np.zeros((NUM_ENVS, LENGTH))
        for env, row in enumerate(self.rows):
            for i in self.held(env):
                found[env, i % LENGTH] = row[i].priority
        return found

    def eligible(self, n_step: int = 1, stack: int = 1, finished_only: bool = False) -> np.ndarray:
        """[E, T] the priorities of what may be drawn, and 0 elsewhere."""
        found = np.zeros((NUM_ENVS, LENGTH))
        for env, row in enumerate(self.rows):
            held = self.held(env)
            for i in held:
                first_frame = max(i - stack + 1, row[i].begins)
                if row[i].closing or first_frame not in held:
                    continue
                if finished_only and row[i].episode == self.episode[env]:
                    continue
                ended = any(later.closing for later in row[i + 1 : i + n_step + 1])
                if ended or i + n_step in held:
                    found[env, i % LENGTH] = row[i].priority
        return found

    def reprioritise(self, row: np.ndarray, slot: np.ndarray, losses: np.ndarray, exponent: float) -> None:
        for env, place, loss in zip(row.tolist(), slot.tolist(), losses.tolist(), strict=True):
            (i,) = (i for i in self.held(env) if i % LENGTH == place)
            self.rows[env][i].priority = (loss + LEAST) ** exponent
            self.top = max(self.top, self.rows[env][i].priority)


def make_steps(rng: np.random.Generator, plain: PlainReplay, end_rate: float) -> Steps:
    """Random steps, which go into the list as well."""
    shape = (BLOCK, NUM_ENVS)
    end = rng.integers(TERMINATED, TRUNCATED + 1, shape) * (rng.random(shape) < end_rate)
    age = np.zeros(shape, np.int32)
    for k in range(BLOCK):
        age[k] = [len(row) - begins for row, begins in zip(plain.rows, plain.begins, strict=True)]
        for env in range(NUM_ENVS):
            plain.add(env, end[k, env] > 0)
    seen, action, reward, after = rng.integers(1, 1000, (4, *shape)).astype(np.float32)
    return Steps(seen, action.astype(np.int32), reward, end == TERMINATED, end == TRUNCATED, after, age)


def count_draws(slots: Slots) -> np.ndarray:
    counts = np.zeros((NUM_ENVS, LENGTH), int)
    np.add.at(counts, (np.asarray(slots.row), np.asarray(slots.slot)), 1)
    return counts


@pytest.mark.parametrize("n_step", (1, 3))
@pytest.mark.parametrize("stack", (1, 4))
def test_a_ring_used_round_and_round_is_the_list(n_step, stack):
    kind, num_draws = dict(n_step=n_step, stack=stack), 24

    @many(max_examples=8)
    @given(st.integers(0, 2**31), st.sampled_from([0.03, 0.15, 0.5]), st.sampled_from([0.5, 1.0]))
    def check(seed, end_rate, exponent):
        rng, key = np.random.default_rng(seed), jax.random.key(seed)
        plain, ring = PlainReplay(), init((), jnp.float32, NUM_ENVS, LENGTH, prioritised=True)
        for turn in range(30):  # at least five times round
            ring = fill_jit(extend_jit(ring, make_steps(rng, plain, end_rate)), 0.9)
            np.testing.assert_allclose(ring.priority, plain.priorities(), **TOLERANCE)
            allowed = plain.eligible(**kind)
            np.testing.assert_array_equal(eligible_jit(ring, **kind), allowed > 0)
            key, draw_key = jax.random.split(key)
            slots = jax.device_get(sample_jit(ring, draw_key, num_draws, **kind))
            assert slots.any == np.any(allowed > 0)
            assert slots.any or turn < 2, "by then, there are transitions"
            if not slots.any:
                continue
            assert np.all(allowed[slots.row, slots.slot] > 0)
            np.testing.assert_allclose(slots.priority, allowed[slots.row, slots.slot], **TOLERANCE)
            losses = (10.0 ** rng.uniform(-4, 3, num_draws) * (rng.random(num_draws) < 0.9)).astype(np.float32)
            ring = reprioritise_jit(ring, slots.row, slots.slot, losses, exponent=exponent)
            plain.reprioritise(slots.row, slots.slot, losses, exponent)
            np.testing.assert_allclose(ring.priority, plain.priorities(), **TOLERANCE)
            np.testing.assert_allclose(ring.top, plain.top, **TOLERANCE)
        slots = sample_jit(ring, key, 2**15, **kind)
        assert_in_proportion(count_draws(slots).ravel(), plain.eligible(**kind).ravel())

    check()


@pytest.mark.parametrize("finished_only", (False, True))
def test_finished_only_draws_finished_episodes_in_proportion(finished_only):
    """Also where what still runs has by far the highest priorities."""
    plain, rng = PlainReplay(), np.random.default_rng(8)
    ring = init((), jnp.float32, NUM_ENVS, LENGTH, prioritised=True)
    for _ in range(12):
        ring = fill_jit(extend_jit(ring, make_steps(rng, plain, 0.15)), 0.9)
    finished = plain.eligible(finished_only=True) > 0
    running = (plain.eligible() > 0) & ~finished
    assert min(running.sum(), finished.sum()) > 5
    row, slot = np.nonzero(running | finished)
    losses = np.where(running[row, slot], 1e3, rng.uniform(0.1, 1.0, len(row))).astype(np.float32)
    ring = reprioritise_jit(ring, row, slot, losses, exponent=1.0)
    plain.reprioritise(row, slot, losses, 1.0)
    kind = dict(finished_only=True) if finished_only else dict(n_step=1, stack=1)
    counts = count_draws(sample_jit(ring, jax.random.key(8), 2**15, **kind))
    assert (counts[running].sum() == 0) == finished_only
    assert_in_proportion(counts.ravel(), plain.eligible(finished_only=finished_only).ravel())


# Priorities, hand-worked ----------------------------------------------------------------------------------------------


def thrice(*column: object) -> np.ndarray:
    return np.array([column] * NUM_ENVS).T


# The same three steps in each environment. In the first they are an episode; in the others it goes on.
THREE_STEPS = Steps(
    observation=thrice(1.0, 2.0, 3.0).astype(np.float32),
    action=thrice(1, 2, 3).astype(np.int32),
    reward=thrice(4.0, 2.0, 8.0).astype(np.float32),
    terminated=thrice(False, False, True) & [True, False, False],
    truncated=thrice(False, False, False),
    next_observation=thrice(2.0, 3.0, 4.0).astype(np.float32),
    age=thrice(0, 1, 2).astype(np.int32),
)
INTRINSIC = thrice(1.0, 2.0, 4.0).astype(np.float32)


def test_new_slots_get_the_top_and_closing_ones_nothing():
    ring = extend_jit(init((), jnp.float32, NUM_ENVS, LENGTH, prioritised=True), THREE_STEPS)
    np.testing.assert_array_equal(ring.priority[:, :5], [[1, 1, 1, 0, 0]] * NUM_ENVS)
    ring = reprioritise_jit(ring, np.array([0]), np.array([1]), np.array([9.0]), exponent=0.5)
    # Three more steps of the last environment alone, of which it took the first and the last.
    steps = jax.tree.map(lambda column: column[:, :1], THREE_STEPS)
    ring = extend_jit(ring, steps, np.array([2]), np.array([[True], [False], [True]]))
    expected = [[1, 3, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 3, 3, 0, 0]]
    np.testing.assert_allclose(ring.priority[:, :7], expected, **TOLERANCE)
    assert ring.size.tolist() == [4, 3, 6], "the last zero but one is a closing slot"


def test_what_an_interruption_closed_is_not_drawn_whatever_its_priority():
    ring = extend_jit(init((), jnp.float32, NUM_ENVS, LENGTH, prioritised=True), THREE_STEPS)
    ring = cut_off(reprioritise_jit(ring, np.array([1]), np.array([2]), np.array([1e6]), exponent=1.0))
    counts = count_draws(sample_jit(ring, jax.random.key(9), 2**15, n_step=1, stack=1))
    assert np.argwhere(counts).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0], [2, 1]]


def test_hand_worked_priorities():
    """A loss of 9, then of 4 at the same place, and of 0 at another."""
    ring = init((), jnp.float32, NUM_ENVS, LENGTH, prioritised=True)
    row, slot, losses = np.array([1, 1, 2]), np.array([3, 3, 0]), np.array([9.0, 4.0, 0.0], np.float32)
    for exponent, there, nothing, top in ((0.0, 1.0, 1.0, 1.0), (0.5, 2.0, 1e-5, 3.0), (1.0, 4.0, 1e-10, 9.0)):
        after = reprioritise_jit(ring, row, slot, losses, exponent=exponent)
        expected = np.zeros((NUM_ENVS, LENGTH))
        expected[1, 3], expected[2, 0] = there, nothing
        np.testing.assert_allclose(after.priority, expected, **TOLERANCE)
        np.testing.assert_allclose(after.top, top, **TOLERANCE)  # 9 was seen, if not for long
        lower = reprioritise_jit(after, row, slot, losses / 100, exponent=exponent)
        assert lower.top == after.top, "it never falls"


@pytest.mark.parametrize("exponent", (0.0, 0.5, 1.0))
def test_new_priorities_are_powers_of_the_loss_and_the_later_one_counts(exponent):
    place = st.tuples(st.integers(0, NUM_ENVS - 1), st.integers(0, 3))  # few enough to come twice
    loss = st.sampled_from([0.0, 1e-6, 0.25, 1.0, 7.5, 400.0])
    old = np.arange(NUM_ENVS * LENGTH, dtype=np.float64).reshape(NUM_ENVS, LENGTH)
    before = init((), jnp.float32, NUM_ENVS, LENGTH, prioritised=True)._replace(priority=old.astype(np.float32))

    @many(max_examples=60)
    @given(st.lists(st.tuples(place, loss), min_size=12, max_size=12), st.sampled_from([1.0, 30.0]))
    def check(changes, top):
        expected = old.copy()
        for at, value in changes:
            expected[at] = (value + 1e-10) ** exponent
        places, losses = zip(*changes, strict=True)
        row, slot = np.array(places).T
        losses, ring = np.array(losses, np.float32), before._replace(top=np.float32(top))
        after = reprioritise_jit(ring, row, slot, losses, exponent=exponent)
        np.testing.assert_allclose(after.priority, expected, **TOLERANCE)
        np.testing.assert_allclose(after.top, max(top, (max(losses) + 1e-10) ** exponent), **TOLERANCE)

    check()


# Importance -----------------------------------------------------------------------------------------------------------


@many(max_examples=150)
@given(
    st.lists(st.floats(-10, 4).map(lambda x: 10.0**x), min_size=24, max_size=24),
    st.sampled_from([0.0, 0.4, 0.5, 1.0]),
    st.floats(0, 6).map(lambda x: 10.0**x),
)
def test_importance_is_that_of_the_definition_over_its_largest(priorities, exponent, others):
    """Three minibatches out of a buffer of 1000, in which all other transitions have some priority together."""
    priority = np.array(priorities, np.float32).reshape(3, 8)
    probability = priority.astype(np.float64) / (priority.astype(np.float64).sum() + others)
    expected = (1000 * probability) ** -exponent
    expected /= expected.max(axis=1, keepdims=True)
    found = np.asarray(importance(jnp.asarray(priority), exponent))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.all((found > 0) & (found <= 1)) and np.all(found.max(axis=1) == 1)


def test_importance_of_equal_priorities_and_of_a_tiny_one_beside_a_large_one():
    for value in (1e-10, 1e-5, 0.7, 1e3):
        np.testing.assert_array_equal(importance(jnp.full((2, 5), value, jnp.float32), 0.5), np.ones((2, 5)))
    for exponent in (0.5, 1.0):
        found = importance(jnp.array([LEAST**0.5, 1.0, 1e3], jnp.float32), exponent)
        np.testing.assert_allclose(found, [1.0, 1e-5**exponent, 1e-8**exponent], rtol=1e-4)


# Intrinsic rewards ----------------------------------------------------------------------------------------------------


def filled(keeps_them: bool, total: bool) -> Ring:
    """Discount 1/2, whole numbers: reward 4 2 8, intrinsic 1 2 4, together 5 4 12."""
    ring = init((), jnp.float32, NUM_ENVS, LENGTH, intrinsic=keeps_them)
    return fill_jit(extend_jit(ring, THREE_STEPS._replace(intrinsic=INTRINSIC)), 0.5, total=total)


def rewards(ring: Ring, n_step: int) -> list[float]:
    batch = gather_jit(ring, Slots(*np.divmod(np.arange(NUM_ENVS * LENGTH), LENGTH), True), discount=0.5, n_step=n_step)
    return batch.reward[:3].tolist()  # those of the first environment


def test_hand_worked_intrinsic_rewards():
    ring = filled(True, total=False)
    assert rewards(ring, 1) == [5, 4, 12]
    assert rewards(ring, 3) == [5 + 4 / 2 + 12 / 4, 4 + 12 / 2, 12]
    assert ring.returns[0, :4].tolist() == [4 + 6 / 2, 2 + 8 / 2, 8, UNKNOWN_RETURN], "the environment's alone"
    ring = filled(True, total=True)
    assert ring.returns[0, :4].tolist() == [5 + 10 / 2, 4 + 12 / 2, 12, UNKNOWN_RETURN]
    assert np.all(ring.returns[1:] == UNKNOWN_RETURN)


@pytest.mark.parametrize("total", (False, True))
def test_a_ring_that_keeps_no_intrinsic_rewards_has_none(total):
    ring = filled(False, total)
    assert (ring.intrinsic, ring.priority, ring.top) == (None, None, None)
    assert jax.eval_shape(partial(sample, num=4), ring, jax.random.key(0)).priority is None
    assert rewards(ring, 1) == [4, 2, 8]
    assert rewards(ring, 3) == [7, 6, 8]
    assert ring.returns[0, :4].tolist() == [7, 6, 8, UNKNOWN_RETURN]


@many(max_examples=15)
@given(st.integers(0, 2**31), st.sampled_from([0.05, 0.3]), st.booleans())
def test_intrinsic_rewards_are_as_if_they_were_added_beforehand(seed, end_rate, total):
    """Round and round; in the returns they are only if asked for. Whole numbers, so that all sums are exact."""
    rng, plain = np.random.default_rng(seed), PlainReplay()
    apart, added, without = (init((), jnp.float32, NUM_ENVS, LENGTH, intrinsic=kept) for kept in (True, False, False))
    everywhere = Slots(*np.divmod(np.arange(NUM_ENVS * LENGTH), LENGTH), True)
    for _ in range(15):
        steps = make_steps(rng, plain, end_rate)
        more = rng.integers(0, 50, steps.reward.shape).astype(np.float32)
        apart = fill_jit(extend_jit(apart, steps._replace(intrinsic=more)), 1.0, total=total)
        steps = steps._replace(intrinsic=np.full_like(more, np.nan))  # these two do not look at it
        added = fill_jit(extend_jit(added, steps._replace(reward=steps.reward + more)), 1.0, total=total)
        without = fill_jit(extend_jit(without, steps), 1.0, total=total)
        np.testing.assert_array_equal(apart.returns, (added if total else without).returns)
        for n_step in (1, 3):
            found, expected = (gather_jit(ring, everywhere, discount=1.0, n_step=n_step) for ring in (apart, added))
            np.testing.assert_array_equal(found.reward, expected.reward)
            np.testing.assert_array_equal(found.discount, expected.discount)
