"""The replay ring against a plain-Python buffer, hand-worked numbers, and statistics of what it draws."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import cycle, pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_reference import ReferenceBuffer
from scipy import stats

from sail import rules
from sail.replay import (
    CLOSING,
    GOES_ON,
    TERMINATED,
    TRUNCATED,
    UNKNOWN_RETURN,
    Batch,
    Ring,
    Slots,
    Steps,
    eligible,
    extend,
    fill_returns,
    gather,
    init,
    sample,
)

N_STEPS = (1, 2, 3, 4)
BOTH = (False, True)
ENDS = {TERMINATED: (True, False), TRUNCATED: (False, True), "both at once": (True, True)}
POISON = -1.0  # next observations of steps that end nothing: the ring has no business with them
COLUMNS = ("observation", "action", "reward", "discount", "next_observation", "returns")
TOLERANCE = dict(rtol=1e-5, atol=1e-4)

many = partial(settings, deadline=None)

extend_jit = jax.jit(extend)
fill_jit = jax.jit(fill_returns, static_argnames="window")
sample_jit = jax.jit(sample, static_argnames=("num", "n_step", "finished_only"))
eligible_jit = jax.jit(eligible, static_argnames=("n_step", "finished_only"))
gather_jit = jax.jit(gather, static_argnames=("n_step", "time_limit_is_terminal"))


# Streams of experience ------------------------------------------------------------------------------------------------


def make_stream(episodes: list[list[tuple[int, object]]], num_steps: int) -> Steps:
    """[num_steps, E]: each environment plays its (length, end) episodes over and over; observations are unique ids."""
    shape = (num_steps, len(episodes))
    stream = Steps(
        observation=np.zeros(shape, np.float32),
        action=np.zeros(shape, np.int32),
        reward=np.zeros(shape, np.float32),
        terminated=np.zeros(shape, bool),
        truncated=np.zeros(shape, bool),
        next_observation=np.full(shape, POISON, np.float32),
        age=np.zeros(shape, np.int32),
    )
    for env, plan in enumerate(episodes):
        observation, age, plays = 10_000 * env + 1, 0, cycle(plan)
        length, end = next(plays)
        for t in range(num_steps):
            here = (t, env)
            stream.observation[here], stream.age[here] = observation, age
            stream.action[here] = 1 + observation % 5
            stream.reward[here] = observation * 37 % 19 - 9
            observation, age = observation + 1, age + 1
            if age == length:
                stream.terminated[here], stream.truncated[here] = ENDS[end]
                stream.next_observation[here] = observation
                observation, age = observation + 1, 0
                length, end = next(plays)
    return stream


def episode_plans(num_envs: int, longest: int) -> st.SearchStrategy:
    """Episodes of each environment: short ones, single steps, and some longer than the ring."""
    length = st.one_of(st.integers(1, 3), st.integers(1, 10), st.integers(1, longest))
    plan = st.lists(st.tuples(length, st.sampled_from(list(ENDS))), min_size=1, max_size=8)
    return st.lists(plan, min_size=num_envs, max_size=num_envs)


discounts = st.sampled_from([0.0, 0.5, 0.9, 1.0])


def blocks_of(stream: Steps, sizes: list[int]) -> Iterator[Steps]:
    for start, stop in pairwise(np.cumsum([0, *sizes])):
        yield jax.tree.map(lambda column, rows=slice(start, stop): column[rows], stream)  # an unused column stays None


def stack(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def add_to(reference: ReferenceBuffer, steps: Steps) -> None:
    """A block goes step by step into the reference, which counts the age itself."""
    for t, env in np.ndindex(*steps.action.shape):
        here = (column[t, env].item() for column in steps if column is not None)
        observation, action, reward, terminated, truncated, after, _ = here
        reference.add(env, observation, action, reward, terminated, truncated, after)


# Looking at the whole ring at once ------------------------------------------------------------------------------------


def everywhere(ring: Ring) -> Slots:
    """All slots, usable or not."""
    row, slot = np.divmod(np.arange(ring.action.size), ring.length)
    return Slots(row, slot, True)


def look(ring: Ring, discount: float) -> tuple[jax.Array, jax.Array]:
    """What is eligible [n_step, finished_only, slot], what is there [n_step, time_limit_is_terminal, column, slot]."""
    usable = [[eligible(ring, n_step=n, finished_only=only).ravel() for only in BOTH] for n in N_STEPS]
    places, batches = everywhere(ring), []
    for n, terminal in product(N_STEPS, BOTH):
        batch = gather(ring, places, discount=discount, n_step=n, time_limit_is_terminal=terminal)
        batches.append(jnp.stack([places.row.astype(jnp.float32), *(getattr(batch, name) for name in COLUMNS)]))
    return jnp.array(usable), jnp.stack(batches).reshape(len(N_STEPS), len(BOTH), *batches[0].shape)


look_jit = jax.jit(look)


@partial(jax.jit, static_argnames=("block", "length"))
def watch(stream: Steps, discount: float, block: int, length: int) -> tuple[jax.Array, jax.Array]:
    """What there is to see after each block of a stream."""
    blocks = jax.tree.map(lambda x: x.reshape(-1, block, *x.shape[1:]), stream)

    def feed(ring: Ring, steps: Steps) -> tuple[Ring, tuple[jax.Array, jax.Array]]:
        ring = fill_returns(extend(ring, steps), discount)
        return ring, look(ring, discount)

    return jax.lax.scan(feed, init((), jnp.float32, stream.action.shape[1], length), blocks)[1]


def side_by_side(reference: ReferenceBuffer, seen: tuple[np.ndarray, np.ndarray], n_step: int, **chosen: bool):
    """[N, column] of every eligible slot, and of every transition of the reference; ids sort like the reference."""
    usable, columns = (x[n_step - 1] for x in seen)
    found = columns[int(chosen["time_limit_is_terminal"])][:, usable[int(chosen["finished_only"])]].T
    return found[np.argsort(found[:, 1])], np.array(reference.transitions(n_step, **chosen)).reshape(-1, 7)


def assert_same_transitions(pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    """One comparison for many looks, because each costs more than a look."""
    assert [len(found) for found, _ in pairs] == [len(expected) for _, expected in pairs]
    found, expected = (np.concatenate(side) for side in zip(*pairs, strict=True))
    np.testing.assert_allclose(found, expected, **TOLERANCE)  # no id is large enough to be mistaken for another


# The ring and the reference, after every block ------------------------------------------------------------------------


@pytest.mark.parametrize(("num_envs", "length", "block"), list(product((1, 3), (12, 32), (1, 4))))
def test_every_transition_is_that_of_the_reference(num_envs, length, block):
    num_steps = {12: 48, 32: 72}[length]  # some four times round, and twice or more

    @many(max_examples=100)
    @given(episode_plans(num_envs, 2 * length), discounts, st.sampled_from(N_STEPS), st.booleans())
    def check(plans, discount, n_step, swap):
        stream = make_stream(plans, num_steps)
        usable, columns = jax.device_get(watch(stream, discount, block, length))
        reference, pairs = ReferenceBuffer(num_envs, length, discount), []
        for index, steps in enumerate(blocks_of(stream, [block] * (num_steps // block))):
            add_to(reference, steps)
            seen = usable[index], columns[index]
            for only in BOTH:
                chosen = dict(finished_only=only, time_limit_is_terminal=only ^ swap)
                pairs.append(side_by_side(reference, seen, n_step, **chosen))
        assert_same_transitions(pairs)

    check()


def assert_same_slots(reference: ReferenceBuffer, ring: Ring) -> None:
    """All that is stored, transition or not: slots in use from the oldest to the newest, and nothing beside them."""
    for env, row in enumerate(reference.rows):
        assert ring.size[env] == len(row)
        assert ring.head[env] == reference.written[env] % reference.length
        places = (ring.head[env] - len(row) + np.arange(len(row))) % reference.length
        for name in ("observation", "action", "reward", "age"):
            np.testing.assert_array_equal(getattr(ring, name)[env, places], [getattr(s, name) for s in row], name)
        kinds = [
            CLOSING if s.closing else TERMINATED if s.terminated else TRUNCATED if s.truncated else GOES_ON for s in row
        ]
        np.testing.assert_array_equal(ring.end[env, places], kinds)
        np.testing.assert_allclose(ring.returns[env, places], [s.returns for s in row], **TOLERANCE)
        unused = np.delete(ring.returns[env], places)
        np.testing.assert_array_equal(unused, np.full_like(unused, UNKNOWN_RETURN))


@many(max_examples=100)
@given(
    episode_plans(3, 24),
    discounts,
    st.lists(st.tuples(st.sampled_from([1, 3, 6]), st.booleans()), min_size=1, max_size=20),
)
def test_blocks_of_any_size_and_returns_filled_late(plans, discount, feeds):
    """Blocks up to the largest that fits; returns are filled after some blocks only, and then all are there."""
    sizes = [size for size, _ in feeds]
    stream, length = make_stream(plans, sum(sizes)), 12
    ring, reference = init((), jnp.float32, 3, length), ReferenceBuffer(3, length, discount)
    for steps, (_, fill) in zip(blocks_of(stream, sizes), feeds, strict=True):
        ring = extend_jit(ring, steps)
        add_to(reference, steps)
        if fill:
            ring = fill_jit(ring, discount)
            assert_same_slots(reference, jax.device_get(ring))
            seen = jax.device_get(look_jit(ring, discount))
            for n_step, only in product((1, 3), BOTH):
                chosen = dict(finished_only=only, time_limit_is_terminal=not only)
                assert_same_transitions([side_by_side(reference, seen, n_step, **chosen)])


@many(max_examples=60)
@given(episode_plans(3, 24), st.lists(st.tuples(st.sampled_from([1, 4]), st.booleans()), min_size=1, max_size=20))
def test_the_smallest_window_fills_what_the_whole_ring_does(plans, feeds):
    sizes = [size for size, _ in feeds]
    ring = windowed = init((), jnp.float32, 3, 12)
    reference = ReferenceBuffer(3, 12, 0.9)
    for steps, (_, fill) in zip(blocks_of(make_stream(plans, sum(sizes)), sizes), feeds, strict=True):
        ring, windowed = extend_jit(ring, steps), extend_jit(windowed, steps)
        add_to(reference, steps)
        if fill:
            ring = fill_jit(ring, 0.9)
            windowed = fill_jit(windowed, 0.9, window=reference.smallest_window())
            np.testing.assert_allclose(windowed.returns, ring.returns, **TOLERANCE)


# Hand-worked ----------------------------------------------------------------------------------------------------------

# One environment, eight slots, discount 1/2.
#   observation  1  2  3 (4) | 5  6 (7) | 8 ...     (4) and (7) close an episode
#   reward       4  2  8     | 1  6     | 3
#   end                t     |    c     |           t: terminated, c: cut off by the time limit
#   return       7  6  8     | 4  6     | unknown   2 + 8/2 = 6, 4 + 6/2 = 7; 1 + 6/2 = 4
HAND_WORKED = Steps(
    observation=np.array([1, 2, 3, 5, 6, 8], np.float32)[:, None],
    action=np.array([2, 1, 3, 1, 2, 3], np.int32)[:, None],
    reward=np.array([4, 2, 8, 1, 6, 3], np.float32)[:, None],
    terminated=np.array([0, 0, 1, 0, 0, 0], bool)[:, None],
    truncated=np.array([0, 0, 0, 0, 1, 0], bool)[:, None],
    next_observation=np.array([2, 3, 4, 6, 7, 9], np.float32)[:, None],
    age=np.array([0, 1, 2, 0, 1, 0], np.int32)[:, None],
)
AFTER = Steps(*(np.array([[x], [y]]) for x, y in [(9, 10), (1, 1), (5, 2), (False,) * 2, (False,) * 2, (0, 0), (1, 2)]))


def read(ring: Ring, n_step: int = 1, **settings: bool) -> dict[int, list[float]]:
    """Of each eligible transition by its observation: reward, discount, next observation, return."""
    usable = np.asarray(eligible_jit(ring, n_step=n_step)).ravel()
    batch = gather_jit(ring, everywhere(ring), discount=0.5, n_step=n_step, **settings)
    columns = (batch.observation, batch.reward, batch.discount, batch.next_observation, batch.returns)
    return {int(o): rest for o, *rest in zip(*(np.asarray(c)[usable].tolist() for c in columns), strict=True)}


@pytest.mark.parametrize("jitted", BOTH)
def test_hand_worked(jitted):
    feed, fill = (extend_jit, fill_jit) if jitted else (extend, fill_returns)
    ring = init((), jnp.float32, num_envs=1, length=8)
    for steps in blocks_of(HAND_WORKED, [2, 2, 2]):
        ring = fill(feed(ring, steps), 0.5)
    # What follows 8 is not in the ring yet, so 8 is no transition.
    assert read(ring) == {
        1: [4, 0.5, 2, 7],
        2: [2, 0.5, 3, 6],
        3: [8, 0, 4, 8],  # the end is the end
        5: [1, 0.5, 6, 4],
        6: [6, 0.5, 7, 6],  # cut off: bootstrap from 7
    }
    assert read(ring, n_step=2) == {
        1: [4 + 2 / 2, 0.25, 3, 7],
        2: [2 + 8 / 2, 0, 4, 6],
        3: [8, 0, 4, 8],  # only one step is left
        5: [1 + 6 / 2, 0.25, 7, 4],
        6: [6, 0.5, 7, 6],  # one step was made, so the discount is 1/2 and not 1/4
    }
    # Three steps: 1 reaches the end, 4 + 2/2 + 8/4; 5 has but two.
    assert read(ring, n_step=3) == {
        **read(ring, n_step=2),
        1: [7, 0, 4, 7],
    }
    assert read(ring, n_step=2, time_limit_is_terminal=True) == {
        **read(ring, n_step=2),
        5: [4, 0, 7, 4],
        6: [6, 0, 7, 6],
    }
    # Two more steps of the third episode, 9 (+5) and 10 (+2), overwrite 1 and 2.
    ring = fill(feed(ring, AFTER), 0.5)
    assert read(ring) == {
        3: [8, 0, 4, 8],
        5: [1, 0.5, 6, 4],
        6: [6, 0.5, 7, 6],
        8: [3, 0.5, 9, UNKNOWN_RETURN],
        9: [5, 0.5, 10, UNKNOWN_RETURN],
    }
    assert read(ring, n_step=2)[8] == [3 + 5 / 2, 0.25, 10, UNKNOWN_RETURN]
    assert sorted(read(ring, n_step=2)) == [3, 5, 6, 8]
    assert sorted(read(ring, n_step=3)) == [3, 5, 6]


def fed(plans, num_steps: int, length: int, block: int = 1, discount: float = 0.9) -> tuple[Ring, ReferenceBuffer]:
    """A ring and the reference after the same steps."""
    stream, reference = make_stream(plans, num_steps), ReferenceBuffer(len(plans), length, discount)
    add_to(reference, stream)
    ring = init((), jnp.float32, len(plans), length)
    for steps in blocks_of(stream, [block] * (num_steps // block) + [1] * (num_steps % block)):
        ring = fill_jit(extend_jit(ring, steps), discount)
    return ring, reference


@pytest.mark.parametrize("block", (1, 5))
def test_an_episode_longer_than_the_ring(block):
    """30 steps in 12 slots: 11 are left, each with the return of all that followed; then a second episode eats them."""
    ring, _ = fed([[(30, TERMINATED), (50, TRUNCATED)]], 30, 12, block, discount=1.0)
    rewards = [n * 37 % 19 - 9 for n in range(1, 31)]
    found = read(ring)
    assert {n: returns for n, (*_, returns) in found.items()} == {n: sum(rewards[n - 1 :]) for n in range(20, 31)}
    ring, _ = fed([[(30, TERMINATED), (50, TRUNCATED)]], 35, 12, block, discount=1.0)
    found = {n: returns for n, (*_, returns) in read(ring).items()}
    assert found == {
        **{n: sum(rewards[n - 1 :]) for n in range(25, 31)},
        **dict.fromkeys(range(32, 36), UNKNOWN_RETURN),
    }


# Returns --------------------------------------------------------------------------------------------------------------


def test_a_running_episode_has_the_placeholder():
    assert UNKNOWN_RETURN == rules.UNKNOWN_RETURN == -np.inf
    assert np.all(np.asarray(init((), jnp.float32, 2, 9).returns) == rules.UNKNOWN_RETURN)
    ring, _ = fed([[(50, TERMINATED)], [(4, TERMINATED), (50, TERMINATED)]], 8, 12, block=4)
    returns = np.asarray(ring.returns)
    assert np.all(returns[0] == rules.UNKNOWN_RETURN)
    # Four steps of an episode that ended, its closing slot, four steps of one that runs, three unused slots.
    assert np.isfinite(returns[1]).tolist() == [True] * 4 + [False] * 8


def test_a_window_bounds_what_is_looked_at():
    # Five steps and the closing slot.
    ring = extend_jit(init((), jnp.float32, 1, 12), make_stream([[(5, TERMINATED)]], 5))
    whole = np.asarray(fill_jit(ring, 0.5).returns)
    assert np.isfinite(whole).sum() == 5
    for window in (6, 12, 13, 120):
        np.testing.assert_allclose(fill_jit(ring, 0.5, window=window).returns, whole, **TOLERANCE)
    one_too_few = np.asarray(fill_jit(ring, 0.5, window=5).returns)
    np.testing.assert_allclose(one_too_few[0, 1:], whole[0, 1:], **TOLERANCE)
    assert one_too_few[0, 0] == UNKNOWN_RETURN


def test_a_window_larger_than_the_ring_is_the_ring():
    """The same program to the letter: no slot is looked at twice, and a long time limit costs nothing."""
    ring = init((), jnp.float32, 1, 12)
    whole, larger = (jax.make_jaxpr(partial(fill_returns, discount=0.5, window=w))(ring) for w in (None, 120))
    assert str(whole) == str(larger)


def test_returns_stay_when_filled_again():
    """Also with another discount, and with half of the episode overwritten: a return is written once."""
    ring, _ = fed([[(9, TERMINATED), (50, TRUNCATED)]], 14, 12)
    np.testing.assert_array_equal(fill_jit(ring, 0.1).returns, ring.returns)


# Extending ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", (lambda f: f, jax.jit), ids=("plain", "jit"))
def test_a_block_that_could_overwrite_itself_is_refused(wrap):
    ring = init((), jnp.float32, 1, 11)
    with pytest.raises(ValueError, match="6 steps at once need a ring of at least 12 slots, not 11"):
        wrap(extend)(ring, make_stream([[(1, TERMINATED)]], 6))
    ring = wrap(extend)(ring, make_stream([[(1, TERMINATED)]], 5))  # ten slots
    assert (ring.size.item(), ring.head.item()) == (10, 10)


def test_a_block_may_fill_the_whole_row():
    ring = fill_jit(extend_jit(init((), jnp.float32, 1, 12), make_stream([[(1, TRUNCATED)]], 6)), 0.5)
    assert (ring.size.item(), ring.head.item()) == (12, 0)
    assert sorted(read(ring)) == [1, 3, 5, 7, 9, 11]
    assert [next_observation for _, _, next_observation, _ in read(ring).values()] == [2, 4, 6, 8, 10, 12]


def test_vmap_over_seeds_is_each_seed_alone():
    plans = [
        [[(3, TERMINATED), (1, TRUNCATED)], [(40, TERMINATED)]],
        [[(1, TERMINATED)], [(7, TRUNCATED), (2, TERMINATED)]],
        [[(15, TRUNCATED)], [(5, TERMINATED)]],
    ]

    def use(ring: Ring, steps: Steps, key: jax.Array) -> tuple[Ring, Slots, Batch]:
        ring = fill_returns(extend(ring, steps), 0.9)
        slots = sample(ring, key, 16, n_step=2)
        return ring, slots, gather(ring, slots, discount=0.9, n_step=2)

    use_alone, use_together = jax.jit(use), jax.jit(jax.vmap(use))
    blocks = [list(blocks_of(make_stream(plan, 20), [4] * 5)) for plan in plans]  # [seed][block]
    alone = [init((), jnp.float32, 2, 12) for _ in plans]
    together = stack(alone)
    keys = jax.random.split(jax.random.key(0), len(plans))
    for steps in zip(*blocks, strict=True):
        results = [use_alone(*inputs) for inputs in zip(alone, steps, keys, strict=True)]
        result = use_together(together, stack(steps), keys)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6), result, stack(results))
        alone, together = [ring for ring, *_ in results], result[0]


@pytest.mark.parametrize("dtype", (jnp.float32, jnp.uint8))
def test_observations_keep_their_shape_and_type(dtype, shape=(3, 2)):
    """Each number of an observation has its own place and value; the ring wraps twice."""
    plans = [[(3, TERMINATED), (4, TRUNCATED)], [(1, TRUNCATED), (6, TERMINATED)]]
    ids, reference = make_stream(plans, 24), ReferenceBuffer(2, 12, 0.9)
    add_to(reference, ids)

    def picture(number) -> np.ndarray:
        number = np.asarray(number).astype(int)[..., None, None]
        return (7 * number + 30 * np.arange(6).reshape(shape)).astype(dtype)  # modulo 256, for bytes

    stream = ids._replace(observation=picture(ids.observation), next_observation=picture(ids.next_observation))
    ring = init(shape, dtype, 2, 12)
    for steps in blocks_of(stream, [4] * 6):
        ring = fill_jit(extend_jit(ring, steps), 0.9)
    assert ring.observation.shape == (2, 12, *shape)
    expected = reference.transitions(n_step=2)
    # Oldest first, as the reference lists them.
    oldest_first = (np.asarray(ring.head)[:, None] + np.arange(12)) % 12
    row, column = np.nonzero(np.take_along_axis(np.asarray(eligible_jit(ring, n_step=2)), oldest_first, axis=1))
    batch = gather_jit(ring, Slots(row, oldest_first[row, column], True), discount=0.9, n_step=2)
    assert batch.observation.dtype == batch.next_observation.dtype == dtype
    np.testing.assert_array_equal(batch.observation, picture([t.observation for t in expected]))
    np.testing.assert_array_equal(batch.next_observation, picture([t.next_observation for t in expected]))
    np.testing.assert_array_equal(batch.action, [t.action for t in expected])
    np.testing.assert_allclose(batch.reward, [t.reward for t in expected], **TOLERANCE)
    assert (batch.reward.dtype, batch.discount.dtype, batch.returns.dtype) == (jnp.float32,) * 3


# Sampling -------------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnames="num")
def draw_all_ways(ring: Ring, key: jax.Array, num: int) -> list[tuple[jax.Array, jax.Array]]:
    """For each n_step and finished_only: whether there is anything to draw, and the observations at what is drawn."""
    ways = [sample(ring, key, num, n_step=n, finished_only=only) for n, only in product(N_STEPS, BOTH)]
    return [(slots.any, ring.observation[slots.row, slots.slot]) for slots in ways]


@pytest.mark.parametrize(("num_envs", "length"), ((3, 12), (2, 32)))
def test_only_eligible_transitions_are_drawn(num_envs, length):
    @many(max_examples=60)
    @given(episode_plans(num_envs, 2 * length), st.sampled_from([1, 2, length // 2, 3 * length]), st.integers(0, 2**31))
    def check(plans, num_steps, seed):
        ring, reference = fed(plans, num_steps, length, block=length // 2)
        drawn = jax.device_get(draw_all_ways(ring, jax.random.key(seed), 64))
        for (n_step, only), (some, observations) in zip(product(N_STEPS, BOTH), drawn, strict=True):
            allowed = {t.observation for t in reference.transitions(n_step, only)}
            assert some == bool(allowed)
            assert not allowed or set(observations.tolist()) <= allowed

    check()


def long_ring(num_envs: int, length: int, num_steps: int) -> tuple[Ring, ReferenceBuffer]:
    """Episodes of 1 to 12 steps, both ends, and one that runs for ever in the last environment from step 60 on."""
    rng = np.random.default_rng(length)
    plans = [[(int(rng.integers(1, 13)), int(rng.integers(TERMINATED, CLOSING))) for _ in range(9)] for _ in range(9)]
    plans = plans[:num_envs]
    plans[-1] = [(60, TERMINATED), (10**6, TERMINATED)]
    return fed(plans, num_steps, length, block=9)


# Slots in all: 111 is no multiple of 32, 64 is; 1655 is more than 32 * 32. The last ring is not full.
@pytest.mark.parametrize(("num_envs", "length", "num_steps"), ((3, 37, 81), (2, 32, 90), (5, 331, 477), (3, 37, 18)))
@pytest.mark.parametrize(("n_step", "finished_only"), ((1, False), (3, True)))
def test_draws_are_uniform(num_envs, length, num_steps, n_step, finished_only):
    ring, reference = long_ring(num_envs, length, num_steps)
    assert any(slot.closing for row in reference.rows for slot in row)
    assert all((written > length) == (num_steps > length) for written in reference.written)
    assert reference.running[-1]
    usable = np.asarray(eligible_jit(ring, n_step=n_step, finished_only=finished_only))
    assert usable.sum() == len(reference.transitions(n_step, finished_only)) > 0
    slots = sample_jit(ring, jax.random.key(3), 2**18, n_step=n_step, finished_only=finished_only)
    assert slots.any
    counts = np.zeros(usable.shape, int)
    np.add.at(counts, (np.asarray(slots.row), np.asarray(slots.slot)), 1)
    assert counts[~usable].sum() == 0
    # Chance alone gives less than 0.0001, or more than 0.9999, once in five thousand keys; the key is fixed.
    assert 1e-4 < stats.chisquare(counts[usable]).pvalue < 1 - 1e-4


def test_draws_are_independent():
    """Each pair of neighbouring draws is as likely as any other, a transition with itself included."""
    ring, reference = fed([[(4, TERMINATED), (30, TRUNCATED)]], 13, 12)
    num_usable = len(reference.transitions())
    slots = sample_jit(ring, jax.random.key(4), 2**16)
    pairs = np.unique(np.asarray(slots.slot).reshape(-1, 2), axis=0, return_counts=True)[1]
    assert len(pairs) == num_usable**2
    assert 1e-4 < stats.chisquare(pairs).pvalue < 1 - 1e-4


def test_the_same_key_draws_the_same():
    ring, _ = long_ring(3, 37, 81)
    first, again, other = (sample_jit(ring, jax.random.key(seed), 64) for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert np.any(first.slot != other.slot)


def test_nothing_to_draw():
    key = jax.random.key(0)
    empty = init((), jnp.float32, 1, 12)
    assert not sample_jit(empty, key, 4).any
    assert not sample_jit(empty, key, 4, finished_only=True).any
    # After one step there is no next observation; after four steps of a running episode there is, but no return.
    assert not sample_jit(fed([[(20, TERMINATED)]], 1, 12)[0], key, 4).any
    running, _ = fed([[(20, TERMINATED)]], 4, 12)
    assert sample_jit(running, key, 4).any
    assert sample_jit(running, key, 4, n_step=3).any
    assert not sample_jit(running, key, 4, n_step=4).any
    assert not sample_jit(running, key, 4, finished_only=True).any
    ended, _ = fed([[(1, TERMINATED)]], 1, 12)
    assert sample_jit(ended, key, 4, n_step=4, finished_only=True).any
