"""Frame stacks, rows in any order, interruptions, and frames kept outside: each against something plainer."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_reference import ReferenceBuffer

from sail.replay import (
    CLOSING,
    GOES_ON,
    INTERRUPTED,
    TERMINATED,
    TRUNCATED,
    UNKNOWN_RETURN,
    Places,
    Ring,
    Slots,
    Steps,
    cut_off,
    eligible,
    extend,
    fill_returns,
    gather,
    gather_frames,
    gather_scalars,
    init,
    sample,
)
from sail.replay.host_frames import HostFrames

N_STEPS = (1, 2, 3)
STACKS = (1, 2, 4)
NOBODY = (4, 5, 2**30)  # row numbers outside a ring of four environments
many = partial(settings, deadline=None)

extend_jit = jax.jit(extend)
extend_rows_jit = jax.jit(lambda ring, steps, rows, taken: extend(ring, steps, rows=rows, taken=taken))
fill_jit = jax.jit(fill_returns)
fill_rows_jit = jax.jit(lambda ring, discount, rows: fill_returns(ring, discount, rows=rows))
cut_off_jit = jax.jit(cut_off)


# Streams of experience ------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """One step of one environment; observations are unique ids from 1 on."""

    observation: int
    action: int
    reward: float
    terminated: bool
    truncated: bool
    next_observation: int
    age: int

    @property
    def ends(self) -> bool:
        return self.terminated or self.truncated


def play(plan: list[tuple[int, int]], num_steps: int, first_id: int = 1) -> list[Step]:
    """The (length, end) episodes of a plan over and over. An episode's last observation has an id of its own."""
    steps: list[Step] = []
    number, age, episode = first_id, 0, 0
    while len(steps) < num_steps:
        length, end = plan[episode % len(plan)]
        last = age + 1 == length
        ends = (last and end == TERMINATED, last and end == TRUNCATED)
        steps.append(Step(number, 1 + number % 5, float(number * 37 % 19 - 9), *ends, number + 1, age))
        number, age, episode = (number + 2, 0, episode + 1) if last else (number + 1, age + 1, episode)
    return steps


def block(steps: list[list[Step]]) -> Steps:
    """Steps [K][E] as the ring takes them."""
    columns = [np.array([[step[i] for step in row] for row in steps]) for i in range(len(Step._fields))]
    dtypes = (np.float32, np.int32, np.float32, bool, bool, np.float32, np.int32)
    return Steps(*(column.astype(dtype) for column, dtype in zip(columns, dtypes, strict=True)))


def plans(num_envs: int, longest: int = 20) -> st.SearchStrategy:
    length = st.one_of(st.integers(1, 3), st.integers(1, 8), st.integers(1, longest))
    plan = st.lists(st.tuples(length, st.sampled_from([TERMINATED, TRUNCATED])), min_size=1, max_size=6)
    return st.lists(plan, min_size=num_envs, max_size=num_envs)


def everywhere(ring: Ring) -> Slots:
    row, slot = np.divmod(np.arange(ring.action.size), ring.length)
    return Slots(row, slot, True)


# Stacks of frames -----------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """A slot, ever written: which observation, of which episode, and whether it closes it."""

    observation: int
    episode: int
    closing: bool


class Tape:
    """All that one environment ever wrote; the ring holds the newest `length` of it."""

    def __init__(self, length: int) -> None:
        self.length, self.written, self.episode = length, list[Written](), 0

    def add(self, step: Step) -> None:
        self.written.append(Written(step.observation, self.episode, False))
        if step.ends:
            self.written.append(Written(step.next_observation, self.episode, True))
            self.episode += 1

    def frames(self, at: int, stack: int) -> list[int]:
        """Where the last `stack` frames of this one's episode are, oldest first."""
        same = [i for i in range(max(at - stack + 1, 0), at + 1) if self.written[i].episode == self.written[at].episode]
        return same

    def stacked(self, at: int, stack: int) -> list[int]:
        seen = [self.written[i].observation for i in self.frames(at, stack)]
        return [0] * (stack - len(seen)) + seen

    def transitions(self, n_step: int, stack: int) -> list[list[int]]:
        """[s, s'] of every transition that can be used, each a stack, oldest first."""
        found, oldest = [], max(len(self.written) - self.length, 0)
        for at in range(oldest, len(self.written)):
            if self.written[at].closing or self.frames(at, stack)[0] < oldest:
                continue
            there = at
            while there < at + n_step and not self.written[there].closing and there + 1 < len(self.written):
                there += 1
            if there < at + n_step and not self.written[there].closing:
                continue  # the state to bootstrap from is still to come
            found.append(self.stacked(at, stack) + self.stacked(there, stack))
        return found


def look(ring: Ring) -> list[tuple[jax.Array, jax.Array]]:
    """For each n_step and stack: what is eligible [slot], and the two stacks there [slot, 2 * stack]."""
    looks = []
    for n_step, stack in product(N_STEPS, STACKS):
        batch = gather(ring, everywhere(ring), discount=0.9, n_step=n_step, stack=stack)
        both = jnp.stack([batch.observation, batch.next_observation], axis=1).reshape(ring.action.size, 2 * stack)
        looks.append((eligible(ring, n_step=n_step, stack=stack).ravel(), both))
    return looks


@partial(jax.jit, static_argnames="length")
def watch(blocks: Steps, length: int) -> list[tuple[jax.Array, jax.Array]]:
    """What there is to see after each block [B, K, E] of a stream."""

    def feed(ring: Ring, steps: Steps) -> tuple[Ring, list[tuple[jax.Array, jax.Array]]]:
        ring = extend(ring, steps)
        return ring, look(ring)

    return jax.lax.scan(feed, init((), jnp.float32, blocks.action.shape[2], length), blocks)[1]


@pytest.mark.parametrize("length", (12, 19))
def test_every_stack_is_that_of_the_tape(length):
    """After every block, several times round the ring, with episodes longer than it."""
    num_steps, size = 60, 3

    @many(max_examples=80)
    @given(plans(2, 2 * length))
    def check(chosen):
        streams = [play(plan, num_steps, 10_000 * env + 1) for env, plan in enumerate(chosen)]
        whole = block([list(row) for row in zip(*streams, strict=True)])
        looks = jax.device_get(watch(jax.tree.map(lambda x: x.reshape(-1, size, 2), whole), length))
        tapes = [Tape(length) for _ in chosen]
        for index in range(num_steps // size):
            for tape, stream in zip(tapes, streams, strict=True):
                for step in stream[index * size : (index + 1) * size]:
                    tape.add(step)
            for (n_step, stack), (usable, both) in zip(product(N_STEPS, STACKS), looks, strict=True):
                found = both[index][usable[index]]
                expected = [pair for tape in tapes for pair in tape.transitions(n_step, stack)]
                assert found[np.argsort(found[:, stack - 1])].tolist() == expected

    check()


def test_hand_worked_stacks():
    """Eight slots, stacks of three.

    observation  1  2  3 (4) | 6  7 (8) | 10 11      (4) and (8) close an episode; 1 has been overwritten
    """
    stream = play([(3, TERMINATED), (2, TRUNCATED), (9, TERMINATED)], 7)
    assert [step.observation for step in stream] == [1, 2, 3, 5, 6, 8, 9]
    ring = init((), jnp.float32, 1, 8)
    for step in stream:
        ring = extend_jit(ring, block([[step]]))

    def pairs(n_step: int) -> dict[int, list[list[float]]]:
        usable = np.asarray(eligible(ring, n_step=n_step, stack=3)).ravel()
        states = np.asarray(gather(ring, everywhere(ring), discount=0.9, n_step=n_step, stack=3).states)
        return {int(s[-1]): [s.tolist(), after.tolist()] for s, after in states[:, usable].swapaxes(0, 1)}

    # 1 to 4, 5 to 7, 8, 9 are nine slots, so 1 is gone, and with it the stacks of 2 and 3.
    assert pairs(1) == {
        5: [[0, 0, 5], [0, 5, 6]],
        6: [[0, 5, 6], [5, 6, 7]],
        8: [[0, 0, 8], [0, 8, 9]],
    }
    assert pairs(2) == {5: [[0, 0, 5], [5, 6, 7]], 6: [[0, 5, 6], [5, 6, 7]]}
    assert np.asarray(eligible(ring, stack=1)).sum() == 5, "without a stack, 2 and 3 would do"


def test_only_whole_stacks_are_drawn():
    ring = init((), jnp.float32, 1, 8)
    for step in play([(30, TERMINATED)], 11):
        ring = extend_jit(ring, block([[step]]))
    # Slots 4 to 11 are left; the stack of 7 begins with 4, and 11 has no next state.
    slots = sample(ring, jax.random.key(0), 4096, stack=4)
    assert set(np.asarray(ring.observation[slots.row, slots.slot]).tolist()) == {7, 8, 9, 10}


@pytest.mark.parametrize("dtype", (np.uint8, np.float32))
def test_stacks_of_pictures_keep_their_type(dtype):
    frames = np.arange(1, 2 * 6 * 2 * 3 + 1).reshape(2, 6, 2, 3).astype(dtype)
    places = Places(np.array([0, 1]), np.array([[2, 0], [3, 1]]), np.array([[2, 0], [3, 1]]))
    for kind in (np.asarray, jnp.asarray):
        found = gather_frames(kind(frames), places, 4)
        assert found.shape == (2, 2, 4, 2, 3) and found.dtype == dtype
        assert isinstance(found, np.ndarray) == (kind is np.asarray)
        nothing = np.zeros((2, 3), dtype)
        np.testing.assert_array_equal(found[0, 0], [nothing, *frames[0, :3]])
        np.testing.assert_array_equal(found[0, 1], [nothing, nothing, nothing, frames[1, 0]])
        np.testing.assert_array_equal(found[1, 0], frames[0, :4])
        np.testing.assert_array_equal(found[1, 1], [nothing, nothing, frames[1, 0], frames[1, 1]])


# Rows in any order ----------------------------------------------------------------------------------------------------


def alone(stream: list[Step], length: int) -> Ring:
    """A ring of one environment, fed step by step."""
    ring = init((), jnp.float32, 1, length)
    for step in stream:
        ring = extend_jit(ring, block([[step]]))
    return ring


def assert_rows_equal(ring: Ring, each: list[Ring]) -> None:
    for name, column in ring._asdict().items():
        if column is None:  # not kept: then nobody keeps it
            assert all(getattr(one, name) is None for one in each), name
            continue
        expected = np.concatenate([np.asarray(getattr(one, name)) for one in each])
        np.testing.assert_array_equal(column, expected, err_msg=name)


@st.composite
def rounds(draw, num_envs: int, num_rows: int, num_steps: int):
    """Rounds of rows: which environments (or nobody), and which of their `num_steps` steps were taken."""
    row = st.permutations([*range(num_envs), *NOBODY]).map(lambda order: order[:num_rows])
    taken = st.lists(
        st.lists(st.booleans(), min_size=num_rows, max_size=num_rows), min_size=num_steps, max_size=num_steps
    )
    return draw(st.lists(st.tuples(row, taken), min_size=1, max_size=25))


@pytest.mark.parametrize("num_steps", (1, 2))
def test_rows_in_any_order_are_what_each_environment_wrote(num_steps):
    length = 9

    @many(max_examples=60)
    @given(plans(4), rounds(4, 3, num_steps))
    def check(chosen, asked):
        streams = [play(plan, 60, 10_000 * env + 1) for env, plan in enumerate(chosen)]
        written = [0] * 4
        ring = init((), jnp.float32, 4, length)
        nobody = Step(77, 1, 5.0, True, False, 78, 3)  # it would be seen, if it were written
        for row, taken in asked:
            steps = [[nobody] * len(row) for _ in range(num_steps)]
            for k, i in np.ndindex(num_steps, len(row)):
                if row[i] < 4 and taken[k][i]:
                    steps[k][i] = streams[row[i]][written[row[i]]]
                    written[row[i]] += 1
            taken = [[one or row[i] >= 4 for i, one in enumerate(mask)] for mask in taken]
            ring = extend_rows_jit(ring, block(steps), np.array(row, np.int32), np.array(taken))
        assert_rows_equal(ring, [alone(stream[:n], length) for stream, n in zip(streams, written, strict=True)])

    check()


def test_a_row_number_outside_the_ring_writes_nothing():
    before = init((), jnp.float32, 4, 6)
    for step in play([(2, TERMINATED)], 3):
        before = extend_jit(before, block([[step] * 4]))
    steps = block([[Step(77, 1, 5.0, True, False, 78, 3)] * 3])
    after = extend_rows_jit(before, steps, np.array(NOBODY, np.int32), np.ones((1, 3), bool))
    jax.tree.map(np.testing.assert_array_equal, after, before)


def test_a_step_not_taken_writes_nothing_even_if_it_says_it_ends():
    """Where nothing was taken, what the other columns say means nothing."""
    before = init((), jnp.float32, 2, 6)
    steps = block([[Step(5, 1, 1.0, True, False, 6, 0)] * 2])
    after = extend_rows_jit(before, steps, np.array([1, 0], np.int32), np.array([[False, True]]))
    np.testing.assert_array_equal(after.size, [2, 0])
    assert after.observation[0, :2].tolist() == [5, 6] and after.end[0, :2].tolist() == [TERMINATED, CLOSING]
    np.testing.assert_array_equal(after.observation[1], before.observation[1])


@many(max_examples=60)
@given(plans(4), st.integers(1, 40), st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_filling_some_rows_is_filling_all_for_these(chosen, num_steps, rows):
    """Rows named twice or more are as good as once."""
    ring = init((), jnp.float32, 4, 12)
    streams = [play(plan, num_steps, 1000 * env + 1) for env, plan in enumerate(chosen)]
    for steps in zip(*streams, strict=True):
        ring = extend_jit(ring, block([list(steps)]))
    whole, some = fill_jit(ring, 0.9), fill_rows_jit(ring, 0.9, np.array(rows, np.int32))
    for env in range(4):
        expected = whole if env in rows else ring
        np.testing.assert_allclose(some.returns[env], expected.returns[env], rtol=1e-6)
    for name in set(Ring._fields) - {"returns"}:
        np.testing.assert_array_equal(getattr(some, name), getattr(ring, name))


# Interruptions --------------------------------------------------------------------------------------------------------


def rows_of(ring: Ring) -> list[tuple[int, str]]:
    """What is in the (only) row, oldest first, with a letter for what follows it."""
    size, head = int(ring.size[0]), int(ring.head[0])
    order = (head - size + np.arange(size)) % ring.length
    return [(int(ring.observation[0, i]), "gtcxi"[int(ring.end[0, i])]) for i in order]


def transitions(ring: Ring, discount: float = 0.5, n_step: int = 1, **chosen: bool) -> dict[int, list[float]]:
    """Of each eligible transition by its observation: reward, discount, next observation, return."""
    ring = fill_jit(ring, discount)
    usable, columns = usable_columns(ring, discount, n_step, **chosen)
    return {int(o): rest for o, _, *rest in np.stack(columns, axis=1)[np.asarray(usable)].tolist()}


def after_steps(plan: list[tuple[int, int]], num_steps: int, length: int = 6) -> Ring:
    return alone(play(plan, num_steps), length)


RUNS = [(50, TERMINATED)]
CUT_OFF = {  # g: goes on, t: terminated, c: cut off, x: closing, i: interrupted
    "nothing yet": ([(50, TERMINATED)], 0, []),
    # What followed the only observation is lost: nothing was learned from it.
    "one observation": (RUNS, 1, [(1, "x")]),
    "two observations": (RUNS, 2, [(1, "i"), (2, "x")]),
    "three observations": (RUNS, 3, [(1, "g"), (2, "i"), (3, "x")]),
    "a full ring": (RUNS, 6, [(1, "g"), (2, "g"), (3, "g"), (4, "g"), (5, "i"), (6, "x")]),
    "round and round": (RUNS, 8, [(3, "g"), (4, "g"), (5, "g"), (6, "g"), (7, "i"), (8, "x")]),
    "ended just now": ([(2, TERMINATED)], 2, [(1, "g"), (2, "t"), (3, "x")]),
    "cut off just now": ([(2, TRUNCATED)], 2, [(1, "g"), (2, "c"), (3, "x")]),
    # The first observation of the second episode closes it at once; the first episode stays as it was.
    "a step after an end": ([(1, TERMINATED), (9, TERMINATED)], 2, [(1, "t"), (2, "x"), (3, "x")]),
    "two after an end": ([(1, TERMINATED), (9, TERMINATED)], 3, [(1, "t"), (2, "x"), (3, "i"), (4, "x")]),
}


@pytest.mark.parametrize("case", CUT_OFF)
def test_a_running_episode_is_cut_off_at_its_newest_observation(case):
    plan, num_steps, expected = CUT_OFF[case]
    assert rows_of(cut_off_jit(after_steps(plan, num_steps))) == expected


def test_cutting_off_twice_is_cutting_off_once():
    for plan, num_steps, _ in CUT_OFF.values():
        once = cut_off_jit(after_steps(plan, num_steps))
        jax.tree.map(np.testing.assert_array_equal, cut_off_jit(once), once)


INTERRUPTED_AT_3 = {1: [9, 0.5, 2, UNKNOWN_RETURN], 2: [8, 0.5, 3, UNKNOWN_RETURN]}
"""1 2 3 are interrupted: 3 was seen, and its reward is lost with what followed it. Rewards are 37 n mod 19 - 9."""


def test_nothing_crosses_into_the_episode_after_an_interruption():
    """1 2 3, an interruption, and a new episode, 11 12 13. Rewards of 1 and 2 are 9 and 8, of 11 and 12 -1 and -2."""
    ring = cut_off_jit(after_steps(RUNS, 3, length=8))
    assert transitions(ring) == INTERRUPTED_AT_3
    in_two_steps = {1: [9 + 8 / 2, 0.25, 3, UNKNOWN_RETURN], 2: [8, 0.5, 3, UNKNOWN_RETURN]}
    assert transitions(ring, n_step=3) == in_two_steps
    for step in play(RUNS, 3, first_id=11):
        ring = extend_jit(ring, block([[step]]))
    new = {11: [-1, 0.5, 12, UNKNOWN_RETURN], 12: [-2, 0.5, 13, UNKNOWN_RETURN]}
    assert transitions(ring) == INTERRUPTED_AT_3 | new
    assert transitions(ring, n_step=2) == in_two_steps | {11: [-1 - 2 / 2, 0.25, 13, UNKNOWN_RETURN]}


def test_an_interruption_is_no_death_where_a_time_limit_is_one():
    """Its last observation is bootstrapped from; that of an episode which was cut off at the same place is not."""
    interrupted, cut = cut_off_jit(after_steps(RUNS, 3)), after_steps([(2, TRUNCATED)], 2)
    assert transitions(interrupted, time_limit_is_terminal=True) == INTERRUPTED_AT_3
    assert transitions(interrupted, n_step=3, time_limit_is_terminal=True) == {
        1: [9 + 8 / 2, 0.25, 3, UNKNOWN_RETURN],
        2: [8, 0.5, 3, UNKNOWN_RETURN],
    }
    assert transitions(cut, time_limit_is_terminal=True) == {1: [9, 0.5, 2, 13], 2: [8, 0, 3, 8]}


@pytest.mark.parametrize("end", (TERMINATED, TRUNCATED))
def test_a_later_end_does_not_finish_an_interrupted_episode(end):
    """1 2 3 are interrupted, 11 12 end in 13: of these alone the returns are known, and they alone are finished."""
    ring = cut_off_jit(after_steps(RUNS, 3, length=8))
    assert transitions(ring, finished_only=True) == {}
    for step in play([(2, end)], 2, first_id=11):
        ring = extend_jit(ring, block([[step]]))
    left = 0.0 if end == TERMINATED else 0.5
    new = {11: [-1, 0.5, 12, -1 - 2 / 2], 12: [-2, left, 13, -2]}
    assert transitions(ring) == INTERRUPTED_AT_3 | new
    assert transitions(ring, finished_only=True) == new


def test_an_episode_that_ended_before_an_interruption_keeps_its_returns():
    """1 2 end in 3, then 4 5 6 are interrupted: the rewards of 1, 2, 4 and 5 are 9, 8, 6 and 5."""
    ring = cut_off_jit(after_steps([(2, TERMINATED), (50, TERMINATED)], 5, length=8))
    ended = {1: [9, 0.5, 2, 9 + 8 / 2], 2: [8, 0, 3, 8]}
    assert transitions(ring) == ended | {4: [6, 0.5, 5, UNKNOWN_RETURN], 5: [5, 0.5, 6, UNKNOWN_RETURN]}
    assert transitions(ring, finished_only=True) == ended


@partial(jax.jit, static_argnames=("n_step", "finished_only", "time_limit_is_terminal"))
def usable_columns(
    ring: Ring, discount: float, n_step: int, finished_only: bool = False, time_limit_is_terminal: bool = False
) -> tuple[jax.Array, list[jax.Array]]:
    batch = gather(
        ring, everywhere(ring), discount=discount, n_step=n_step, time_limit_is_terminal=time_limit_is_terminal
    )
    columns = [batch.observation, batch.action, batch.reward, batch.discount, batch.next_observation, batch.returns]
    return eligible(ring, n_step=n_step, finished_only=finished_only).ravel(), columns


@many(max_examples=80)
@given(plans(2, 30), st.lists(st.integers(0, 15), min_size=2, max_size=4), st.booleans(), st.booleans())
def test_interruptions_at_any_time_leave_what_the_reference_has(chosen, parts, finished_only, time_limit_is_terminal):
    """Between two interruptions each environment begins anew; at the end some episodes still run."""
    ring, reference = init((), jnp.float32, 2, 10), ReferenceBuffer(2, 10, 0.9)
    flags = {"finished_only": finished_only, "time_limit_is_terminal": time_limit_is_terminal}
    for part, num_steps in enumerate(parts):
        streams = [play(plan, num_steps, 10_000 * env + 1000 * part + 1) for env, plan in enumerate(chosen)]
        for steps in zip(*streams, strict=True):
            ring = fill_jit(extend_jit(ring, block([list(steps)])), 0.9)
            for env, step in enumerate(steps):
                reference.add(env, *step[:6])
        assert_like_the_reference(ring, reference, flags)
        ring = fill_jit(cut_off_jit(ring), 0.9)
        reference.interrupt()
        assert_like_the_reference(ring, reference, flags)


def assert_like_the_reference(ring: Ring, reference: ReferenceBuffer, flags: dict[str, bool]) -> None:
    for n_step in N_STEPS:
        usable, columns = jax.device_get(usable_columns(ring, 0.9, n_step, **flags))
        columns = np.stack(columns, axis=1)[usable]
        expected = np.array([t[1:] for t in reference.transitions(n_step, **flags)]).reshape(-1, 6)
        found = columns[np.argsort(columns[:, 0])]
        assert found[:, 0].tolist() == expected[:, 0].tolist()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


# Frames kept outside --------------------------------------------------------------------------------------------------


class Sender:
    """Rows of one environment: resets in a row of their own, or within the step that ends an episode."""

    def __init__(self, plan: list[tuple[int, int]], env: int, within_step: bool) -> None:
        self.steps = iter(play(plan, 200, 500 * env + 1))
        self.env, self.within_step, self.now = env, within_step, None  # None: a reset is due

    def row(self) -> tuple[int, int, Step | None]:
        """What to act on next, what closed the episode, and the step that led there, if one did."""
        if self.now is None:
            self.now = next(self.steps)
            return self.now.observation, 0, None
        done = self.now
        self.now = None if done.ends and not self.within_step else next(self.steps)
        newest = done.next_observation if self.now is None else self.now.observation
        return newest, done.next_observation, done


def picture(number) -> np.ndarray:
    """Six bytes, two of which tell the number."""
    number = np.asarray(number)[..., None]
    return (np.concatenate([number >> 8, number & 255], -1)[..., None] + np.arange(3)).astype(np.uint8)


@partial(jax.jit, static_argnames="stack")
def on_device(ring: Ring, stack: int) -> tuple[Places, jax.Array]:
    places, _ = gather_scalars(ring, everywhere(ring), discount=0.9, n_step=2)
    return places, gather_frames(ring.observation, places, stack)


@pytest.mark.parametrize("within_step", (False, True))
def test_frames_outside_are_those_of_the_ring(within_step):
    num_envs, length = 4, 9

    @many(max_examples=50)
    @given(plans(num_envs), st.lists(st.permutations(range(num_envs)), min_size=1, max_size=40))
    def check(chosen, asked):
        ring = init((2, 3), jnp.uint8, num_envs, length)
        host = HostFrames((2, 3), np.uint8, num_envs, length)
        senders = [Sender(plan, env, within_step) for env, plan in enumerate(chosen)]
        nothing = Step(0, 0, 0.0, False, False, 0, 0)
        for order in asked:
            env = np.array(order[:2])
            newest, last, done = zip(*(senders[i].row() for i in env), strict=True)
            taken = np.array([step is not None for step in done])
            ended = np.array([step is not None and step.ends for step in done])
            steps = block([[step or nothing for step in done]])
            steps = steps._replace(
                observation=picture(steps.observation.astype(int)),
                next_observation=picture(steps.next_observation.astype(int)),
            )
            ring = extend_rows_jit(ring, steps, env.astype(np.int32), taken[None])
            host.extend(env, picture(newest), picture(last) if within_step else picture(newest), taken, ended)
        np.testing.assert_array_equal(host.frames, ring.observation)
        for stack in (1, 3):
            places, frames = jax.device_get(on_device(ring, stack))
            outside = gather_frames(host.frames, places, stack)
            assert outside.dtype == frames.dtype == np.uint8
            np.testing.assert_array_equal(outside, frames)

    check()


def test_the_letters_of_the_tests_are_the_ends_of_the_ring():
    assert (GOES_ON, TERMINATED, TRUNCATED, CLOSING, INTERRUPTED) == (0, 1, 2, 3, 4)
