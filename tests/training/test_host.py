"""The host loop: what it collects, how often it learns, what is learned, and that no seed depends on another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sail import envs, replay
from sail.envs.host import Rows
from sail.training import emulators
from sail.training.metrics import updates_at

gymnasium = pytest.importorskip("gymnasium")

from host_envs import Counter  # noqa: E402
from host_training import NEVER, Trained, assert_same_bits, program_of, tiny  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # gymnasium's opinions on the environments


# Environments that answer in any order --------------------------------------------------------------------------------


class Pool:
    """Counters as a HostEnv, their rows in random order; remembers what the ring should hold."""

    name = "gym:host_envs:Pool"
    num_actions, stack = 2, 1
    observation_shape, observation_dtype = (3,), np.float32
    max_episode_steps = reward_threshold = None

    def __init__(
        self,
        num_envs: int,
        lengths: tuple[int, ...] = (3, 5),
        within_step: bool = False,
        order: int = 0,
    ) -> None:
        self.num_envs, self.resets_within_step, self.order = num_envs, within_step, order
        self.envs = [Counter(lengths) for _ in range(num_envs)]
        self.answers: list[list[tuple[int, list[dict[str, Any]]]]] = []

    def reset(self, seed: int) -> None:
        self.random = np.random.default_rng([seed, self.order])
        self.waiting = [(i, self.began(i, seed + i), []) for i in range(self.num_envs)]
        self.asked: list[int] = []

    def began(self, i: int, seed: int | None = None) -> dict[str, Any]:
        self.last = self.envs[i].reset(seed=seed)[0]
        return {"observation": self.last, "stepped": False, "begins": True, "closing": self.last}

    def stepped(self, i: int, action: int) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
        env = self.envs[i]
        if env.time == env.length() and not self.resets_within_step:
            return i, self.began(i), []
        before = {"observation": env.seen(), "action": action, "age": env.time}
        seen, reward, terminated, truncated, _ = env.step(action)
        end = replay.TERMINATED if terminated else replay.TRUNCATED if truncated else replay.GOES_ON
        slots = [before | {"reward": reward, "end": end}]
        row = {"observation": seen, "stepped": True, "begins": False, "closing": seen}
        row |= {"reward": reward, "terminated": terminated, "truncated": truncated}
        if end:
            slots += [{"observation": seen, "action": 0, "age": env.time, "reward": 0.0, "end": replay.CLOSING}]
            if self.resets_within_step:
                row |= {"observation": env.reset()[0], "begins": True}
        return i, row, slots

    def recv(self) -> Rows:
        given = [self.waiting[i] for i in self.random.permutation(self.num_envs)]
        self.answers.append([(i, slots) for i, _, slots in given])
        self.asked = [i for i, _, _ in given]

        def column(name: str, dtype: Any) -> Any:
            return np.array([row.get(name, 0) for _, row, _ in given], dtype)

        return Rows(
            env=np.array(self.asked, np.int32),
            observation=column("observation", np.float32),
            reward=column("reward", np.float32),
            terminated=column("terminated", bool),
            truncated=column("truncated", bool),
            stepped=column("stepped", bool),
            begins=column("begins", bool),
            closing=column("closing", np.float32) if self.resets_within_step else None,
        )

    def told(self, num_answers: int) -> list[list[dict[str, Any]]]:
        """Of each environment, in its first answers: a slot for each step, and one for each end."""
        return [
            [slot for one in self.answers[:num_answers] for j, slots in one if j == i for slot in slots]
            for i in range(self.num_envs)
        ]

    def send(self, actions: Any) -> None:
        self.waiting = [self.stepped(i, int(action)) for i, action in zip(self.asked, actions, strict=True)]

    def close(self) -> None:
        pass


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Pool]]:
    """Has the host loop make pools instead; gives the list of those it will have made."""

    def use(**how: Any) -> list[Pool]:
        made: list[Pool] = []

        def make_host(settings: Any, num_envs: int) -> Pool:
            made.append(Pool(num_envs, **how))
            return made[-1]

        monkeypatch.setattr(envs, "make_host", make_host)
        return made

    return use


def expected_returns(slots: list[dict[str, Any]], discount: float) -> list[float]:
    """Backwards, one by one; unknown until the episode has ended."""
    found, value = [], replay.UNKNOWN_RETURN
    for slot in reversed(slots):
        if slot["end"] == replay.CLOSING:
            found.append(replay.UNKNOWN_RETURN)
            continue
        value = slot["reward"] if slot["end"] else slot["reward"] + discount * value
        found.append(value)
    return found[::-1]


def assert_ring_holds(ring: replay.Ring, told: list[list[dict[str, Any]]], discount: float = 0.99) -> None:
    """Each row of the ring is the newest of what its environment told, in order, and nothing else."""
    for row, slots in enumerate(told):
        size = min(len(slots), ring.length)
        assert (ring.size[row], ring.head[row]) == (size, len(slots) % ring.length)
        order = (ring.head[row] - size + np.arange(size)) % ring.length
        newest = slots[len(slots) - size :]
        for name in ("observation", "action", "reward", "end", "age"):
            np.testing.assert_array_equal(
                getattr(ring, name)[row][order], np.array([slot[name] for slot in newest], np.float32), err_msg=name
            )
        np.testing.assert_allclose(ring.returns[row][order], expected_returns(newest, discount), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("within_step", (False, True))
def test_the_ring_holds_what_environments_did_in_any_order(pools: Callable[..., list[Pool]], within_step: bool) -> None:
    """Round the ring of 25 slots each and round again."""
    config = tiny(learning=NEVER, replay={"capacity": 100}, steps=400)

    @settings(deadline=None, derandomize=True, max_examples=12)
    @given(lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4), order=st.integers(0, 9))
    def check(lengths: list[int], order: int) -> None:
        made = pools(lengths=tuple(lengths), within_step=within_step, order=order)
        trained = Trained(config, 200, 200)
        assert [pool.num_envs for pool in made] == [1, 4]  # one to be asked for shapes, one to be trained in
        told = made[1].told(trained.rounds())
        assert_ring_holds(trained.ring(), told)
        steps = sum(slot["end"] != replay.CLOSING for slots in told for slot in slots)
        assert 400 <= steps == trained.program._taken[0] < 400 + 4

    check()


@pytest.mark.parametrize("frames", ["device", "host"])
@pytest.mark.parametrize("seeds", [1, 2])
def test_two_pools_that_take_turns_fill_one_ring(pools: Any, seeds: int, frames: str) -> None:
    made = pools(lengths=(3, 7, 1, 12), within_step=False, order=seeds)
    learning = {"starts": 100, "num_envs": 8, "num_pools": 2}
    trained = Trained(tiny(learning=learning, replay={"capacity": 200, "frames": frames}, seeds=seeds), 400, 400)
    assert len(made) == 1 + 2 * seeds  # one was asked for shapes
    for seed in range(seeds):
        first, second = made[1 + 2 * seed : 3 + 2 * seed]
        rounds = int(trained.program._rounds[seed])
        told = first.told((rounds + 1) // 2) + second.told(rounds // 2)
        ring = trained.ring(seed)
        if frames == "host":
            ring = ring._replace(observation=trained.program._host_frames[seed].frames)
        assert_ring_holds(ring, told)
        steps = sum(slot["end"] != replay.CLOSING for slots in told for slot in slots)
        assert steps == trained.program._taken[seed]
    assert trained.updates() == [updates_at(trained.program.config, 800)] * seeds


@pytest.mark.parametrize(
    ("num_pools", "within_step", "turns"),
    [
        # The second pool ends at its second answer, begins at its third, and so on. A turn after each end is not its.
        (3, False, [0, 1, 2, 0, 1, 2, 0, 2, 0, 1, 2, 0, 1, 2, 0, 2, 0, 1]),
        (3, True, [0, 1, 2] * 6),  # it has begun again within the step
        (2, False, [0, 1] * 9),
    ],
)
def test_a_pool_that_begins_anew_misses_a_turn(
    pools: Callable[..., list[Pool]], num_pools: int, within_step: bool, turns: list[int]
) -> None:
    made = pools(lengths=(1000,), within_step=within_step)
    config = tiny(learning={"num_envs": num_pools, "num_pools": num_pools})
    asked = emulators.Pools(config, 0)
    made[1].envs[0].lengths = (1,)
    try:
        for turn in turns:
            (pool,), (rows,) = asked.rows(np.arange(1))
            assert rows is not None and rows.env.tolist() == [turn]
            pool.act(np.zeros(1, int))
    finally:
        asked.close()


@pytest.mark.parametrize("num_pools", [3, 4])
def test_pools_that_miss_turns_fill_one_ring(pools: Callable[..., list[Pool]], num_pools: int) -> None:
    made = pools(lengths=(3, 40, 1, 12), within_step=False)
    learning = {"starts": 200, "num_envs": 12, "num_pools": num_pools}
    trained = Trained(tiny(learning=learning, replay={"capacity": 2400}), 400, 800)
    assert trained.updates() == [updates_at(trained.program.config, 1200)]
    ring = trained.ring()
    told = [slots for pool in made[1:] for slots in pool.told(len(pool.answers))]
    # Emulators are up to an answer ahead of the ring.
    taken = [slots[:size] for slots, size in zip(told, ring.size, strict=True)]
    assert all(0 <= len(slots) - len(some) <= 2 for slots, some in zip(told, taken, strict=True))
    assert_ring_holds(ring, taken)
    steps = sum(slot["end"] != replay.CLOSING for slots in taken for slot in slots)
    assert 1200 <= steps == trained.program._taken[0] < 1200 + 12 // num_pools


def test_a_dozen_that_end_at_once_all_get_their_returns(pools: Callable[..., list[Pool]]) -> None:
    made = pools(lengths=(4,), within_step=True)
    trained = Trained(tiny(learning={**NEVER, "num_envs": 12}), 200)
    assert_ring_holds(trained.ring(), made[1].told(trained.rounds()))
    # 17 rounds of 12 are 204 steps; four episodes of each have ended, and of the fifth there is one step.
    assert np.isfinite(trained.ring().returns).sum() == 12 * 16
    assert len(trained.episodes) == 12 * 4


@pytest.mark.parametrize("autoreset", ("next", "same"))
def test_the_ring_holds_what_gymnasium_did(monkeypatch: pytest.MonkeyPatch, autoreset: Any) -> None:
    """A Counter's observations say what they should be: only the actions must be taken from the ring itself.

    Odd episodes are cut off: they are bootstrapped from their own last observation, and not from the next one's first.
    """
    from sail.envs.gym import GymEnv

    monkeypatch.setattr(envs, "make_host", lambda settings, num_envs: GymEnv(settings, num_envs, autoreset=autoreset))
    trained = Trained(tiny(env={"clip_rewards": True}, learning=NEVER), 400, 400)
    ring = trained.ring()
    told: list[list[dict[str, Any]]] = []
    for row in range(4):
        lane = (int(ring.observation[0, 0, 0]) + row) % 1000
        slots: list[dict[str, Any]] = []
        episode = 0
        while len(slots) < ring.size[row]:
            length = (3, 5)[(lane + episode) % 2]
            for age in range(length):
                action = int(ring.action[row, len(slots)])
                end = 0 if age + 1 < length else replay.TRUNCATED if episode % 2 else replay.TERMINATED
                reward = 1.0 if action else -0.5  # 3 is clipped
                slots.append({"action": action, "reward": reward, "end": end, "age": age})
                slots[-1]["observation"] = (lane, episode, age)
            slots.append({"action": 0, "reward": 0.0, "end": replay.CLOSING, "age": length})
            slots[-1]["observation"] = (lane, episode, length)
            episode += 1
        told.append(slots[: ring.size[row]])
    assert_ring_holds(ring, told)
    assert sum(slot["end"] != replay.CLOSING for slots in told for slot in slots) == 800
    actions = [slot["action"] for slots in told for slot in slots if slot["end"] != replay.CLOSING]
    assert 300 < sum(actions) < 500
    # What the learner gets: every step but those whose next observation has not come in yet.
    usable = np.argwhere(replay.eligible(ring))
    running = sum(slots[-1]["end"] == replay.GOES_ON for slots in told)
    assert len(usable) == 800 - running
    batch = jax.device_get(replay.gather(ring, replay.Slots(*usable.T, True), discount=0.99))
    ends = ring.end[tuple(usable.T)]
    np.testing.assert_array_equal(batch.next_observation[:, :2], batch.observation[:, :2])
    np.testing.assert_array_equal(batch.next_observation[:, 2], batch.observation[:, 2] + 1)
    np.testing.assert_allclose(batch.discount, np.where(ends == replay.TERMINATED, 0.0, 0.99), rtol=1e-6)
    assert {0, 1, 2} == set(ends.tolist())
    terminal = replay.gather(ring, replay.Slots(*usable.T, True), discount=0.99, time_limit_is_terminal=True)
    np.testing.assert_allclose(terminal.discount, np.where(ends == replay.GOES_ON, 0.99, 0.0), rtol=1e-6)


# Episodes -------------------------------------------------------------------------------------------------------------


def test_scores_are_never_clipped_and_come_with_their_steps() -> None:
    """Each row against the ring, which holds the actions: 3 for each action 1 (the learner sees 1) and -0.5 else."""
    trained = Trained(tiny(env={"clip_rewards": True}, learning=NEVER), 400, 400)
    ring = trained.ring()
    assert set(ring.reward[ring.end != replay.CLOSING].tolist()) == {0.0, 1.0, -0.5}  # 0: never written
    expected = []
    for row in range(4):
        size = int(ring.size[row])
        first = 0
        for last in np.flatnonzero(np.isin(ring.end[row, :size], (replay.TERMINATED, replay.TRUNCATED))):
            actions = ring.action[row, first : last + 1]
            expected.append((float(np.where(actions == 1, 3.0, -0.5).sum()), len(actions)))
            first = last + 2
    found = [(row["return"], row["length"]) for row in trained.episodes]
    late = [(row["return"], row["length"]) for row in trained.program._episodes]  # of the next block already
    assert sorted(found + late) == sorted(expected) and len(found) > 190
    steps = [row["step"] for row in trained.episodes]
    assert steps == sorted(set(steps)) and steps[-1] <= 800
    assert {row["seed"] for row in trained.episodes} == {0}


def test_a_slice_has_the_episodes_of_its_own_steps() -> None:
    config = tiny(learning=NEVER)
    whole, pieces = Trained(config, 800), Trained(config, 200, 400, 200)
    assert whole.episodes == pieces.episodes
    assert_same_bits(whole.state.ring, pieces.state.ring)
    # Lengths are 3 and 5 in turn, in rounds of 4: resets take rounds too, but no steps.
    assert sum(row["length"] for row in whole.episodes) in range(800 - 4 * 5, 801)


# Updates --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("num_envs", "num_pools", "update_period", "starts", "max_block", "blocks", "updates"),
    [
        (4, 2, 4, 200, 256, 200, 250),  # 5 blocks, 50 updates each
        (4, 4, 1, 333, 64, 50, 700),  # from step 350 on: 14 blocks of 50
        (7, 1, 8, 1000, 8, 8, 1),  # a block for each update, and the first at the last step
    ],
)
def test_the_number_of_updates_is_exact(
    monkeypatch: pytest.MonkeyPatch,
    pools: Callable[..., list[Pool]],
    num_envs: int,
    num_pools: int,
    update_period: int,
    starts: int,
    max_block: int,
    blocks: int,
    updates: int,
) -> None:
    """Over 1000 steps, however many come in at once."""
    made = pools(lengths=(3, 1, 11))
    learning = {"num_envs": num_envs, "num_pools": num_pools, "update_period": update_period}
    learning |= {"starts": starts, "max_block": max_block}
    config = tiny(learning=learning, steps=1000)
    assert config.block_steps == blocks
    turns, rows = [], emulators.Pools.rows

    def counted(self: Any, seeds: Any) -> Any:
        asked, answers = rows(self, seeds)
        turns.append(int(answers[0].env[0]) // (num_envs // num_pools))
        return asked, answers

    monkeypatch.setattr(emulators.Pools, "rows", counted)
    trained = Trained(config, blocks, 1000 - blocks)
    assert trained.updates() == [updates] == [updates_at(config, 1000)]
    told = [made[1 + i].told(turns.count(i)) for i in range(num_pools)]
    steps = sum(slot["end"] != replay.CLOSING for pool in told for slots in pool for slot in slots)
    assert 1000 <= steps < 1000 + num_envs // num_pools


def test_the_target_network_is_copied_when_it_is_due() -> None:
    trained = Trained(tiny(), 400)
    assert_same_bits(trained.state.learner.params, trained.state.learner.target)
    later = Trained(tiny(learning={"target_period": 600}), 800)
    fresh = later.program.device.init().learner
    assert not np.array_equal(
        later.state.learner.params.head.advantage.out.weight, later.state.learner.target.head.advantage.out.weight
    )
    assert not np.array_equal(
        later.state.learner.target.head.advantage.out.weight, fresh.target.head.advantage.out.weight
    )


# Bits -----------------------------------------------------------------------------------------------------------------


def test_frames_kept_by_the_host_give_the_same_bits_as_on_the_device() -> None:
    changes: dict[str, Any] = {"env": {"stack": 2}}
    on_device, again, on_host = (
        Trained(tiny(replay={"frames": frames}, **changes), 400, 1200) for frames in ("device", "device", "host")
    )
    assert on_host.ring().observation.size == 0 and on_device.ring().observation.shape == (4, 400, 3)
    assert_same_bits(on_device.state.learner, again.state.learner)
    assert_same_bits(on_device.state.learner, on_host.state.learner)
    assert on_device.episodes == again.episodes == on_host.episodes
    assert on_device.updates() == [400]  # 50 for each block of 200 from step 200 on
    np.testing.assert_array_equal(on_host.program._host_frames[0].frames, on_device.ring().observation)


def test_the_size_of_slices_changes_nothing() -> None:
    whole, pieces = Trained(tiny(), 1200), Trained(tiny(), 200, 600, 200, 200)
    assert_same_bits(whole.state._replace(key=None), pieces.state._replace(key=None))
    assert whole.episodes == pieces.episodes


# Seeds ----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def together() -> Trained:
    """Two seeds, 20 and 21, whose episodes are of different lengths."""
    return Trained(tiny("Ragged", seed=20, seeds=2), 400, 400)


def test_each_of_two_seeds_has_its_own_steps_and_updates(together: Trained) -> None:
    assert together.updates() == [200, 200]  # 50 for each block of 200 from step 200 on
    for seed in (0, 1):
        ring = together.ring(seed)
        used = np.arange(ring.length) < ring.size[:, None]
        assert 800 <= (used & (ring.end != replay.CLOSING)).sum() < 804
    for seed in (20, 21):
        steps = [row["step"] for row in together.episodes if row["seed"] == seed]
        assert steps == sorted(set(steps)) and len(steps) > 10


def test_episodes_of_two_seeds_come_in_the_order_of_their_steps(together: Trained) -> None:
    steps = [row["step"] for row in together.episodes]
    assert steps == sorted(steps)


def test_a_seed_does_not_depend_on_its_neighbour(together: Trained) -> None:
    alone = Trained(tiny("Ragged", seed=21), 400, 400)
    assert alone.episodes == [row for row in together.episodes if row["seed"] == 21]
    for name in ("action", "end", "age", "observation"):
        np.testing.assert_array_equal(getattr(alone.ring(), name), getattr(together.ring(1), name), err_msg=name)
    mine, theirs = alone.state.learner.params, together.state.learner.params
    assert not np.array_equal(*np.asarray(theirs.head.advantage.out.weight))
    for x, y in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(x[0], y[1], rtol=1e-4, atol=1e-6)


# After an interruption ------------------------------------------------------------------------------------------------


def test_refilled_steps_are_those_of_the_policy_and_count_for_nothing(pools: Callable[..., list[Pool]]) -> None:
    """A ring of 100, at step 200 of a run that does not explore: it is filled with greedy steps."""
    made, notes = pools(), []
    config = tiny(replay={"capacity": 100}, exploration={"start": 0.0, "end": 0.0})
    trained = Trained(config, 200)
    assert trained.updates() == [50]
    program = program_of(config)
    state = program.restore(program.saved(trained.state), {"step": 200}, notes.append)
    assert notes == ["The replay ring is not there: filling it with 100 new steps first, which do not count."]
    ring = jax.tree.map(lambda x: np.asarray(x[0]), state.ring)
    told = made[-1].told(int(program._rounds[0]) - 200)
    assert_ring_holds(ring, told)
    assert 100 <= sum(slot["end"] != replay.CLOSING for slots in told for slot in slots) < 104
    params = jax.tree.map(lambda x: x[0], state.learner.params)
    for row in range(4):
        for slot in np.flatnonzero(ring.end[row, : ring.size[row]] != replay.CLOSING):
            assert ring.action[row, slot] == np.argmax(params(ring.observation[row, slot]))
    result = program.advance(state, 200, 200)
    program.close()
    assert result.steps == 200 and np.asarray(result.state.learner.optimiser[0].count).tolist() == [100]
    assert all(200 < row["step"] <= 400 for row in result.episodes) and len(result.episodes) > 40


# What is learned ------------------------------------------------------------------------------------------------------


def learned(name: str, **changes: Any) -> Trained:
    sections: dict[str, Any] = {
        "agent": {"discount": 0.9, "loss": "squared", "hidden": (16,)},
        "optimiser": {"learning_rate": 3e-3},
        "exploration": {"start": 1.0, "end": 1.0},
        "learning": {"num_envs": 4, "starts": 100, "update_period": 1, "target_period": 40},
        "evaluation": {"period": 4000},
        "replay": {"capacity": 1600},
    }
    for section, values in changes.items():
        sections[section] = {**sections.get(section, {}), **values}
    return Trained(tiny(name, "dqn", steps=4000, **sections), 4000)


def values_of(trained: Trained, observations: Any) -> Any:
    params = jax.tree.map(lambda x: x[0], trained.state.learner.params)
    return np.asarray([params(np.asarray(one, np.float32).ravel())[:, 0] for one in observations])


def test_a_cut_off_episode_is_bootstrapped_from_its_end() -> None:
    """The chain pays 1 every other step for ever: V(0) = 1 + 0.81 V(0), whatever the time limit."""
    found = values_of(learned("Chain", env={"time_limit": 4}), np.eye(2))
    best = 1 / (1 - 0.81)
    np.testing.assert_allclose(found, [[0.81 * best, best], [0.9 * best, 0.9 * best]], rtol=0.03)


def test_a_time_limit_can_be_a_death() -> None:
    """Steps 1 to 4 are taken from the states 0, 1, 0, 1, and the last of them ends it: half of the time V(1) is 0."""
    changes: dict[str, Any] = {"env": {"time_limit": 4}, "replay": {"time_limit_is_terminal": True}}
    found = values_of(learned("Chain", **changes), np.eye(2))
    best = 1 / (1 - 0.9 * 0.45)
    other = 0.45 * best
    np.testing.assert_allclose(found, [[0.9 * other, best], [other, other]], atol=0.15)


def test_a_stack_of_two_shows_where_the_light_came_from() -> None:
    trained = learned("Moving", env={"stack": 2})
    left, right, middle, nothing = np.eye(4)[:, :3]
    found = values_of(trained, [(nothing, left), (nothing, right), (left, middle), (right, middle)])
    np.testing.assert_allclose(found, [[0.9, 0.9], [0.9, 0.9], [1, 0], [0, 1]], atol=0.1)
    program = trained.program
    scores = program.evaluate(program.params(trained.state), 4000, epsilon=0.0, episodes=20)
    assert scores[0].returns.tolist() == [1.0] * 20 and scores[0].length.tolist() == [2] * 20


# Evaluation -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("within_step", (False, True))
def test_the_episodes_of_an_evaluation_are_the_first_of_each_environment(
    pools: Callable[..., list[Pool]], within_step: bool
) -> None:
    """20 episodes in 16 environments: two of each of the first four, however short those of others are."""
    made = pools(lengths=(9, 2, 4), within_step=within_step)
    trained = Trained(tiny())
    scores = trained.program.evaluate(trained.state.learner.params, 0, epsilon=1.0, episodes=20)[0]
    expected = []
    for i, env in enumerate(made[-1].envs):
        expected += [(9, 2, 4)[(env.lane + episode) % 3] for episode in range(2 if i < 4 else 1)]
    assert made[-1].num_envs == 16 and sorted(scores.length.tolist()) == sorted(expected)
