"""Key-Door-Treasure against a gridworld in plain Python, over every state that can be reached."""

import math
from collections import deque
from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sail import envs
from sail.envs.kdt import KdtState

# From the specification of the domain, not from the code.
MAP = [
    "#############",
    "#.....#T....#",
    "#...a.#.....#",
    "#.....#.....#",
    "#.a...#.....#",
    "#.....#.....#",
    "##.########D#",
    "#.....#.....#",
    "#.S...#.....#",
    "#...........#",
    "#.....#.....#",
    "#.....#....K#",
    "#############",
]
START, KEY, DOOR, TREASURE = (8, 2), (11, 11), (6, 11), (1, 7)
APPLES = ((2, 4), (4, 2))
FLOOR = [(r, c) for r in range(13) for c in range(13) if MAP[r][c] != "#"]
UP, DOWN, LEFT, RIGHT = range(4)
MOVES = {UP: (-1, 0), DOWN: (1, 0), LEFT: (0, -1), RIGHT: (0, 1)}
REWARDS = {"key_reward": 0.25, "door_reward": 0.5, "treasure_reward": 2.0}  # all different, to tell them apart
APPLE_REWARD = 0.125
NEVER = 1_000_000

# The shortest way: down 1, right 9 and down 2 to the key (12); up 5 through the door; up 5 and left 4 (9).
ROUTE = [DOWN] + [RIGHT] * 9 + [DOWN] * 2 + [UP] * 5 + [UP] * 5 + [LEFT] * 4

# A state of the Python gridworld is (cell, key held, door open, apples left).


def walk(cell, action: int, has_key: bool):
    ahead = (cell[0] + MOVES[action][0], cell[1] + MOVES[action][1])
    closed = ahead == DOOR and not has_key
    return cell if MAP[ahead[0]][ahead[1]] == "#" or closed else ahead


def python_step(state, action: int):
    """The next state, the reward and whether the treasure was taken."""
    cell, has_key, door_open, apples = state
    cell, reward = walk(cell, action, has_key), 0.0
    if cell == KEY and not has_key:
        has_key, reward = True, reward + REWARDS["key_reward"]
    if cell == DOOR and not door_open:
        door_open, reward = True, reward + REWARDS["door_reward"]
    for i, place in enumerate(APPLES):
        if cell == place and apples[i]:
            reward += APPLE_REWARD
            apples = tuple(left and j != i for j, left in enumerate(apples))
    if cell == TREASURE:
        reward += REWARDS["treasure_reward"]
    return (cell, has_key, door_open, apples), reward, cell == TREASURE


def first_state(name: str):
    return (START, False, False, (name == "apple-kdt",) * 2)


@cache
def reachable(name: str) -> tuple:
    """Every state in which an action is taken."""
    start = first_state(name)
    seen, queue = {start}, deque([start])
    while queue:
        state = queue.popleft()
        for action in MOVES:
            after, _, ends = python_step(state, action)
            if not ends and after not in seen:
                seen.add(after)
                queue.append(after)
    return tuple(sorted(seen))


# And the same in jax.


def to_jax(states, time=0) -> KdtState:
    cells, keys, doors, apples = zip(*states, strict=True)
    times = jnp.broadcast_to(jnp.array(time, jnp.int32), (len(states),))
    return KdtState(jnp.array(cells, jnp.int32), jnp.array(keys), jnp.array(doors), jnp.array(apples), times)


def to_python(state: KdtState, index):
    cell, has_key, door_open, apples = (np.asarray(part)[index].tolist() for part in state[:4])
    return (tuple(cell), has_key, door_open, tuple(apples))


def every_step(env, states: KdtState):
    """The outcomes [S, A] of every action in every state, in one call."""
    key = jax.random.key(0)
    over_actions = jax.vmap(lambda s, a: env.step(s, a, key), (None, 0))
    after, outcome = jax.jit(jax.vmap(over_actions, (0, None)))(states, jnp.arange(4))
    return jax.tree.map(np.asarray, after), jax.tree.map(np.asarray, outcome)


def make(name: str, **settings):
    apple = {"apple_reward": APPLE_REWARD} if name == "apple-kdt" else {}
    return envs.make(name, **{**REWARDS, **apple, "time_limit": NEVER, **settings})


@cache
def real_table(name: str) -> dict:
    """(state, action) to (next state, success), by the real step, for all that could be written down as a state."""
    apples = list(product([False, True], repeat=2)) if name == "apple-kdt" else [(False, False)]
    states = list(product(FLOOR, [False, True], [False, True], apples))
    after, outcome = every_step(make(name), to_jax(states))
    return {
        (state, action): (to_python(after, (i, action)), bool(outcome.success[i, action]))
        for i, state in enumerate(states)
        for action in range(4)
    }


def real_distances(name: str) -> tuple[dict, dict]:
    """Breadth-first over the real step: the fewest steps to each state, and to each end with the treasure."""
    start = to_python(jax.jit(make(name).reset)(jax.random.key(0)), ())
    assert start == first_state(name)
    table, distance, treasure = real_table(name), {start: 0}, {}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for action in range(4):
            after, success = table[state, action]
            if success:
                treasure.setdefault(after, distance[state] + 1)
            elif after not in distance:
                distance[after] = distance[state] + 1
                queue.append(after)
    return distance, treasure


# The map, the routes, and every single transition


def test_this_map_is_the_specified_one() -> None:
    assert [MAP[r][c] for r, c in (START, KEY, DOOR, TREASURE, *APPLES)] == list("SKDTaa")
    # Four rooms of 25, two gaps and the door.
    assert len(FLOOR) == 4 * 25 + 2 + 1


def test_shortest_routes() -> None:
    distance, treasure = real_distances("kdt")
    assert treasure == {(TREASURE, True, True, (False, False)): 26}
    assert distance[KEY, True, False, (False, False)] == 12
    assert distance[DOOR, True, True, (False, False)] == 12 + 5


def test_shortest_routes_with_apples() -> None:
    distance, treasure = real_distances("apple-kdt")
    ends = {apples: steps for (_, _, _, apples), steps in treasure.items()}
    assert set(ends) == set(product([False, True], repeat=2))
    assert ends[True, True] == 26  # apples left alone
    assert ends[False, False] == 42  # both eaten
    # (4, 2) is straight up from the start, 4 steps there and 4 back; (2, 4) is 8 steps there and 8 back, by way
    # of (4, 2) if one likes.
    assert ends[True, False] == 26 + 8 and ends[False, True] == 26 + 16
    assert distance[(4, 2), False, False, (True, False)] == 4


@pytest.mark.parametrize("name", ["kdt", "apple-kdt"])
def test_as_many_states_can_be_reached_as_there_are(name: str) -> None:
    # Without the key: three rooms and two gaps, 77 cells, less the key's own. With it: 77. Once the door is open: all
    # 103 cells, less the treasure's, where the episode is over. 76 + 77 + 102 = 255.
    # With apples, four times that, less the cells that no one stands on with the apple there uneaten: 2 + 1 + 1 + 0 in
    # each of the three phases.
    expected = 255 if name == "kdt" else 4 * 255 - 3 * 4
    distance, treasure = real_distances(name)
    assert set(distance) == set(reachable(name))
    assert len(distance) == expected
    assert len(treasure) == (1 if name == "kdt" else 4)


@pytest.mark.parametrize("name", ["kdt", "apple-kdt"])
def test_every_transition(name: str) -> None:
    states = reachable(name)
    after, outcome = every_step(make(name), to_jax(states, time=7))
    for (i, state), action in product(enumerate(states), range(4)):
        where = (i, action)
        expected, reward, ends = python_step(state, action)
        assert to_python(after, where) == expected, (state, action)
        assert outcome.reward[where] == reward, (state, action)
        assert outcome.terminated[where] == outcome.success[where] == ends, (state, action)
    assert (after.time == 8).all() and not outcome.truncated.any()
    assert outcome.reward.dtype == np.float32


def test_the_door_is_closed_without_the_key() -> None:
    none = (False, False)
    table = real_table("kdt")
    assert table[((7, 11), False, False, none), UP][0] == ((7, 11), False, False, none)
    assert table[((7, 11), True, False, none), UP][0] == (DOOR, True, True, none)
    assert not any(
        cell == DOOR or (cell[0] < 6 and cell[1] > 6) for cell, has_key, *_ in reachable("kdt") if not has_key
    )


# Rewards and ends, along the shortest route


def play(env, actions: list[int]):
    def step(state, action):
        return env.step(state, action, jax.random.key(0))

    _, outcome = jax.jit(lambda: jax.lax.scan(step, env.reset(jax.random.key(0)), jnp.array(actions)))()
    return jax.tree.map(np.asarray, outcome)


def test_rewards_by_default_are_the_treasure_alone() -> None:
    outcome = play(envs.make("kdt"), ROUTE)
    np.testing.assert_array_equal(outcome.reward, [0.0] * 25 + [1.0])
    np.testing.assert_array_equal(outcome.terminated, [False] * 25 + [True])


def test_rewards_as_set() -> None:
    outcome = play(envs.make("kdt", key_reward=0.1, door_reward=-0.2, treasure_reward=5), ROUTE)
    expected = np.zeros(26)
    expected[[11, 16, 25]] = 0.1, -0.2, 5.0
    np.testing.assert_allclose(outcome.reward, expected, rtol=1e-6)
    # Up four to an apple; on to the other: up 2, right 2; a second visit pays nothing.
    apples = play(envs.make("apple-kdt"), [UP] * 4 + [UP] * 2 + [RIGHT] * 2 + [LEFT, RIGHT])
    np.testing.assert_allclose(apples.reward, [0, 0, 0, 0.1, 0, 0, 0, 0.1, 0, 0], rtol=1e-6)


@pytest.mark.parametrize("timed", [False, True])
def test_the_treasure_on_the_last_step_counts(timed: bool) -> None:
    outcome = play(envs.make("kdt", time_limit=26, timed=timed), ROUTE)
    assert outcome.terminated[-1] and outcome.success[-1] and not outcome.truncated[-1]
    assert outcome.reward[-1] == 1.0
    assert not (outcome.terminated | outcome.truncated)[:-1].any()


@pytest.mark.parametrize("timed", [False, True])
def test_the_time_limit(timed: bool) -> None:
    outcome = play(envs.make("kdt", time_limit=25, timed=timed), ROUTE[:25])
    last, before = [False] * 24 + [True], [False] * 25
    np.testing.assert_array_equal(outcome.truncated, before if timed else last)
    np.testing.assert_array_equal(outcome.terminated, last if timed else before)
    assert not outcome.success.any() and not outcome.reward.any()


@pytest.mark.parametrize("timed", [False, True])
def test_no_step_both_terminates_and_truncates(timed: bool) -> None:
    limit = 30
    states = reachable("kdt")
    takes = np.array([[python_step(state, action)[2] for action in range(4)] for state in states])
    assert takes.sum() == 2  # from below and from the right
    for time in (limit - 2, limit - 1):
        _, outcome = every_step(make("kdt", time_limit=limit, timed=timed), to_jax(states, time))
        late = np.full_like(takes, time == limit - 1) & ~takes
        np.testing.assert_array_equal(outcome.success, takes)
        np.testing.assert_array_equal(outcome.terminated, takes | late if timed else takes)
        np.testing.assert_array_equal(outcome.truncated, np.zeros_like(late) if timed else late)


# Observations


def python_observation(name: str, state) -> list[int]:
    cell, has_key, door_open, apples = state
    return [*(cell == place for place in FLOOR), has_key, door_open, *(apples if name == "apple-kdt" else ())]


@pytest.mark.parametrize("name", ["kdt", "apple-kdt"])
def test_observations_tell_all_states_apart(name: str) -> None:
    states = reachable(name)
    seen = np.asarray(jax.jit(jax.vmap(make(name).observe))(to_jax(states, time=3)))
    np.testing.assert_array_equal(seen, [python_observation(name, state) for state in states])
    assert len({row.tobytes() for row in seen}) == len(states)


@pytest.mark.parametrize("name", ["kdt", "apple-kdt"])
def test_timed_observations_tell_the_time_left_too(name: str) -> None:
    limit, states = 12, reachable(name)
    observe = jax.jit(jax.vmap(make(name, time_limit=limit, timed=True).observe))
    seen = np.concatenate([observe(to_jax(states, time)) for time in range(limit + 1)])
    shown = np.repeat([(limit - time) / limit for time in range(limit + 1)], len(states))
    np.testing.assert_allclose(seen[:, -1], shown, atol=1e-6)
    np.testing.assert_array_equal(seen[: len(states), :-1], [python_observation(name, state) for state in states])
    assert len({row.tobytes() for row in seen}) == len(states) * (limit + 1)


def test_a_step_shows_the_state_it_leads_to() -> None:
    env = make("apple-kdt", time_limit=50, timed=True)
    after, outcome = every_step(env, to_jax(reachable("apple-kdt"), time=20))
    np.testing.assert_array_equal(outcome.observation, jax.jit(jax.vmap(jax.vmap(env.observe)))(after))


@pytest.mark.parametrize(
    ("name", "timed", "slip", "moves"),
    list(product(["kdt", "apple-kdt"], [False, True], [0.0, 0.2], [0, 3])),
)
def test_shapes_and_dtypes(name: str, timed: bool, slip: float, moves: int) -> None:
    env = envs.make(name, timed=timed, slip=slip, random_start_moves=moves, time_limit=77)
    state = jax.eval_shape(env.reset, jax.random.key(0))
    after, outcome = jax.eval_shape(env.step, state, jnp.array(0), jax.random.key(0))
    size = 103 + 2 + 2 * (name == "apple-kdt") + timed
    for seen in (jax.eval_shape(env.observe, state), outcome.observation):
        assert seen.shape == env.observation_shape == (size,)
        assert seen.dtype == env.observation_dtype == (jnp.float32 if timed else jnp.uint8)
    # A loop needs states of one kind.
    assert jax.tree.map(lambda x: (x.shape, x.dtype), after) == jax.tree.map(lambda x: (x.shape, x.dtype), state)
    assert (outcome.reward.dtype, outcome.reward.shape) == (jnp.float32, ())
    for flag in (outcome.terminated, outcome.truncated, outcome.success):
        assert (flag.dtype, flag.shape) == (jnp.bool_, ())
    assert env.max_episode_steps == 77 and env.num_actions == 4


# Chance: every frequency within five standard errors of its probability.

SAMPLES = 20_000


def assert_frequencies(cells: np.ndarray, probabilities: dict) -> None:
    found = {place: int((cells == place).all(-1).sum()) for place in probabilities}
    assert sum(found.values()) == len(cells), "some went where no one can go"
    for place, p in probabilities.items():
        error = math.sqrt(p * (1 - p) * len(cells))
        assert abs(found[place] - p * len(cells)) <= 5 * max(error, 1.0), (place, found[place] / len(cells), p)


@pytest.mark.parametrize("slip", [0.3, 1.0])
def test_slip(slip: float) -> None:
    # From (9, 3) all ways are open; from (7, 1), up and left are walls.
    env = make("kdt", slip=slip)
    starts = [((9, 3), False, False, (False, False)), ((7, 1), False, False, (False, False))]
    keys = jax.random.split(jax.random.key(5), (2, 4, SAMPLES))
    over_keys = jax.vmap(lambda s, a, k: env.step(s, a, k)[0].cell, (None, None, 0))
    over_actions = jax.vmap(over_keys, (None, 0, 0))
    cells = np.asarray(jax.jit(jax.vmap(over_actions, (0, None, 0)))(to_jax(starts), jnp.arange(4), keys))
    for (i, (cell, *_)), action in product(enumerate(starts), range(4)):
        probabilities: dict = {}
        for move in range(4):
            place = walk(cell, move, has_key=False)
            probabilities[place] = probabilities.get(place, 0.0) + slip / 4 + (1 - slip) * (move == action)
        assert math.isclose(sum(probabilities.values()), 1.0)
        assert_frequencies(cells[i, action], probabilities)


def random_walk(moves: int) -> dict:
    """The exact distribution over cells after some random moves from the start."""
    spread = {START: 1.0}
    for _ in range(moves):
        after: dict = {}
        for (cell, p), action in product(spread.items(), range(4)):
            place = walk(cell, action, has_key=False)
            after[place] = after.get(place, 0.0) + p / 4
        spread = after
    return spread


@pytest.mark.parametrize("moves", [5, 150])
def test_random_starts(moves: int) -> None:
    env = make("apple-kdt", random_start_moves=moves)
    reset = jax.jit(jax.vmap(env.reset))
    keys = jax.random.split(jax.random.key(1), SAMPLES)
    states = jax.tree.map(np.asarray, reset(keys))
    assert_frequencies(
        states.cell, random_walk(moves)
    )  # never in a wall nor behind the door, and as often as it should
    # A walk before the episode takes nothing and costs no time.
    assert not states.has_key.any() and not states.door_open.any() and states.apples_left.all()
    assert not states.time.any()
    again = reset(keys)
    np.testing.assert_array_equal(again.cell, states.cell)
    other = reset(jax.random.split(jax.random.key(2), SAMPLES))
    assert (np.asarray(other.cell) != states.cell).any()


def test_without_random_moves_every_start_is_the_same() -> None:
    states = jax.vmap(make("kdt").reset)(jax.random.split(jax.random.key(1), 10))
    assert (np.asarray(states.cell) == START).all()


@pytest.mark.parametrize("name", ["kdt", "apple-kdt"])
@pytest.mark.parametrize(("landmark", "index"), [("key", 11), ("treasure", 25)])
def test_landmarks_are_steps_of_the_shortest_route(name: str, landmark: str, index: int) -> None:
    env = envs.make(envs.settings_class(name)(name=name, timed=True))
    state = env.reset(jax.random.key(0))
    for action in ROUTE[:index]:
        state, _ = env.step(state, jnp.array(action), jax.random.key(1))
    there, action = env.landmarks()[landmark]
    assert action == ROUTE[index]
    np.testing.assert_array_equal(env.observe(there), env.observe(state))
