"""AtariEnv against Gymnasium's own wrappers, frame by frame, and what it does that those do not."""

import os
import types

import jax
import numpy as np
import pytest

import sail
from sail import replay
from sail.envs import atari_settings
from sail.envs.atari import AtariEnv
from sail.envs.atari_settings import GAMES, AtariSettings, rom
from sail.errors import BadInputError, TrainingError
from sail.training.host import HostProgram
from sail.training.host_evaluation import Watched

ale_py = pytest.importorskip("ale_py")
gymnasium = pytest.importorskip("gymnasium")
gymnasium.register_envs(ale_py)

PONG_ACTIONS = ["NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE"]


@pytest.fixture
def make():
    """AtariEnv without sticky actions, closed at the end."""
    made = []

    def make(game, num_envs=1, **settings):
        made.append(AtariEnv(AtariSettings(name=f"atari:{game}", **{"sticky": 0.0, **settings}), num_envs))
        return made[-1]

    yield make
    for env in made:
        env.close()


def gymnasium_env(game, stack=4, time_limit=27_000):
    """The protocol as Gymnasium's wrappers have it.

    The emulator counts the frames of a time limit, not a wrapper: at the last of them both stop before they look, so
    the closing frame of an episode that was cut off is pooled with the last frame of the step before.
    """
    settings = {"frameskip": 1, "repeat_action_probability": 0.0, "full_action_space": False}
    env = gymnasium.make(f"ALE/{game}-v5", max_num_frames_per_episode=4 * time_limit, **settings)
    env = gymnasium.wrappers.AtariPreprocessing(
        env,
        noop_max=0,
        frame_skip=4,
        screen_size=84,
        terminal_on_life_loss=False,
        grayscale_obs=True,
        scale_obs=False,
    )
    return gymnasium.wrappers.FrameStackObservation(env, stack, padding_type="zero")


def act_on(env, actions):
    env.send(np.asarray(actions, np.int32))
    return env.recv()


def first_rows(env, seed=0):
    env.reset(seed)
    return env.recv()


def play(env, num_rows, action=lambda row: 0, seed=0):
    """Rows of a pool of one; `action` gives that for each row."""
    rows = [first_rows(env, seed)]
    while len(rows) < num_rows:
        rows.append(act_on(env, [action(len(rows) - 1)]))
    return rows


def lengths(rows):
    """Of the episodes in the rows of a pool of one."""
    found, length = [], 0
    for row in rows:
        length += int(row.stepped[0])
        if row.terminated[0] or row.truncated[0]:
            found.append(length)
            length = 0
    return found


# As Gymnasium has it --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", ("Pong", "Breakout", "Frostbite", "MsPacman"))
def test_stacks_and_rewards_are_gymnasiums_bit_for_bit(make, game):
    """Through an end by a time limit as well: one row is the end, the next the reset."""
    env, theirs = make(game, time_limit=120), gymnasium_env(game, time_limit=120)
    assert env.num_actions == theirs.action_space.n
    watched, random = Watched(env), np.random.default_rng(0)
    rows = first_rows(env)
    expected, _ = theirs.reset(seed=1)
    np.testing.assert_array_equal(watched.see(rows)[0], expected)
    assert rows.begins.tolist() == [True] and rows.stepped.tolist() == [False]
    rewards, ended = 0.0, 0
    for step in range(200):
        action = random.integers(env.num_actions)
        rows = act_on(env, [action])
        if ended:
            # The action for the reset row is ignored.
            expected, _ = theirs.reset()
            reward, terminated, truncated = 0, False, False
            assert rows.begins.tolist() == [True] and rows.stepped.tolist() == [False]
        else:
            expected, reward, terminated, truncated, _ = theirs.step(action)
            assert rows.begins.tolist() == [False] and rows.stepped.tolist() == [True]
        np.testing.assert_array_equal(watched.see(rows)[0], expected, err_msg=f"step {step}")
        assert rows.reward.tolist() == [reward] and rows.reward.dtype == np.float32
        assert (rows.terminated.tolist(), rows.truncated.tolist()) == ([terminated], [truncated])
        ended, rewards = terminated or truncated, rewards + abs(reward)
        assert truncated == (step == 119)
    theirs.close()
    assert rewards or game == "Frostbite"


def test_the_last_step_of_a_lost_game_is_gymnasiums_and_terminates(make):
    """Pong is lost 21 to 0 without moving, after 760 steps or so."""
    env, theirs = make("Pong"), gymnasium_env("Pong", stack=1)
    rows = first_rows(env)
    theirs.reset(seed=1)
    score, length = 0.0, 0
    while not rows.terminated[0]:
        rows = act_on(env, [0])
        expected, reward, terminated, truncated, _ = theirs.step(0)
        assert (rows.reward[0], rows.terminated[0], rows.truncated[0]) == (reward, terminated, truncated)
        score, length = score + reward, length + 1
    np.testing.assert_array_equal(rows.observation[0], expected[0])
    assert score == -21 and 500 < length < 1500
    rows = act_on(env, [3])
    assert rows.begins[0] and not rows.stepped[0] and not rows.terminated[0]
    np.testing.assert_array_equal(rows.observation[0], theirs.reset()[0][0])
    theirs.close()


def test_what_the_ring_gives_back_is_gymnasiums(make):
    """Two episodes of 40 steps, written as the host loop writes them and gathered with their stacks."""
    sections = {"replay": {"capacity": 200}, "learning": {"num_envs": 1}, "agent": {"network": "mlp", "hidden": (1,)}}
    config = sail.make_config("atari:Breakout", "dqn", {"env": {"sticky": 0.0, "time_limit": 40}, **sections})
    device = HostProgram(config).device
    env, theirs = make("Breakout", time_limit=40), gymnasium_env("Breakout", time_limit=40)
    state = device.with_empty_ring(device.init())
    ring, walkers = state.ring, state.walkers
    random = np.random.default_rng(1)
    rows = first_rows(env)
    seen, transitions = theirs.reset(seed=1)[0], []
    for _ in range(83):
        action = random.integers(4)
        of_one_seed = type(rows)(*[None if column is None else column[None] for column in rows])
        ring, walkers = device.write_past(ring, walkers, None, of_one_seed, np.array([[action]], np.int32))
        ended = rows.terminated[0] or rows.truncated[0]
        if ended:
            seen, _ = theirs.reset()
        else:
            before = seen
            seen, reward, terminated, _, _ = theirs.step(action)
            transitions.append((before, action, reward, terminated, seen))
        rows = act_on(env, [action])
    theirs.close()
    ring = jax.tree.map(lambda column: column[0], ring)
    usable = np.asarray(replay.eligible(ring, stack=4))[0]
    slots = replay.Slots(np.zeros(usable.sum(), int), np.flatnonzero(usable), True)
    batch = jax.device_get(replay.gather(ring, slots, discount=0.9, stack=4))
    # 83 rows are: a first one, 40 steps, a reset, 40 steps, a reset: nothing is known yet of the step after it.
    assert len(batch.action) == len(transitions) - 1 == 80
    for i, (before, action, reward, terminated, after) in enumerate(transitions[:80]):
        np.testing.assert_array_equal(batch.observation[i], before, err_msg=str(i))
        np.testing.assert_array_equal(batch.next_observation[i], after, err_msg=str(i))
        assert (batch.action[i], batch.reward[i]) == (action, np.clip(reward, -1, 1))
        assert batch.discount[i] == pytest.approx(0.0 if terminated else 0.9)
    np.testing.assert_array_equal(batch.observation[40][:3], 0)  # a stack begins anew with its episode


# Many at once ---------------------------------------------------------------------------------------------------------


def streams(env, num_each, actions):
    """What each environment of a pool sends."""
    rows = [first_rows(env, seed=5)]
    while len(rows) < num_each:
        rows.append(act_on(env, actions[:, len(rows)]))
    assert all(row.env.tolist() == list(range(env.num_envs)) for row in rows)
    return [[[np.copy(column[i]) for column in row[1:-1]] for row in rows] for i in range(env.num_envs)]


def test_a_pool_does_the_same_again_however_many_threads_it_has(make):
    """With sticky actions too; the episodes are 25 steps long."""
    actions = np.random.default_rng(2).integers(4, size=(5, 70))
    settings = {"time_limit": 25, "sticky": 0.25}
    many, one = (streams(make("Breakout", 5, threads=threads, **settings), 70, actions) for threads in (2, 1))
    for mine, theirs in zip(many, one, strict=True):
        for number, (row, other) in enumerate(zip(mine, theirs, strict=True)):
            for column, expected in zip(row, other, strict=True):
                np.testing.assert_array_equal(column, expected, err_msg=str(number))
        # A first row, 25 steps, a reset, and so on.
        assert [number for number, row in enumerate(mine) if not row[4]] == [0, 26, 52]
        assert [number for number, row in enumerate(mine) if row[3]] == [25, 51]
    sent = {b"".join(row[0].tobytes() for row in stream) for stream in many}
    assert len(sent) == 5, "they were sent different actions"


def test_emulators_that_answer_out_of_order_stop_the_run(make):
    """That one environment's action was played in another is not to be learned from."""
    env = make("Pong", 3)
    first_rows(env)
    env.send([0, 0, 0])
    real, answer = env._env, env._env.recv()
    answer[-1]["env_id"][1] = 2
    env._env = types.SimpleNamespace(recv=lambda: answer)
    with pytest.raises(TrainingError, match="atari:Pong: the emulators have answered out of order"):
        env.recv()
    env._env = real


def test_emulators_can_give_way(make):
    """In the idle class they do the same."""
    before = set(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else set()
    given, kept = make("Pong", 2, threads=2, give_way=True), make("Pong", 2, threads=2, give_way=False)
    actions = np.random.default_rng(0).integers(6, size=(2, 40))
    for mine, theirs in zip(streams(given, 40, actions), streams(kept, 40, actions), strict=True):
        for row, other in zip(mine, theirs, strict=True):
            assert all(map(np.array_equal, row, other))
    if hasattr(os, "SCHED_IDLE"):
        classes = [os.sched_getscheduler(int(one)) for one in set(os.listdir("/proc/self/task")) - before]
        assert sorted(classes) == [os.SCHED_OTHER] * 2 + [os.SCHED_IDLE] * 2
        assert os.sched_getscheduler(0) == os.SCHED_OTHER


# Names ----------------------------------------------------------------------------------------------------------------


def test_all_sixty_games_are_in_the_emulator():
    roms = set(ale_py.roms.get_all_rom_ids())
    assert len(GAMES) == len(set(GAMES)) == 60
    assert {rom(f"atari:{game}") for game in GAMES} <= roms
    assert len({rom(f"atari:{game}") for game in GAMES}) == 60


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("atari:Pong", "pong"),
        ("atari:MontezumaRevenge", "montezuma_revenge"),
        ("atari:UpNDown", "up_n_down"),
        ("atari:Qbert", "qbert"),
        ("atari:MarioBros", "mario_bros"),  # not one of the sixty
        ("atari:TicTacToe3d", "tic_tac_toe_3d"),
    ],
)
def test_a_game_has_the_emulators_name(name, found):
    assert rom(name) == found


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("atari:Pnog", "no Atari game 'Pnog': did you mean 'Pong'"),
        ("atari:pong", "no Atari game 'pong': did you mean 'Pong'"),
        ("atari:MontezumasRevenge", "no Atari game 'MontezumasRevenge': did you mean 'MontezumaRevenge'"),
        ("atari:MarioBro", "no Atari game 'MarioBro': did you mean 'MarioBros'"),
        ("atari:", "named like atari:MontezumaRevenge, not 'atari:'"),
        ("Pong", "named like atari:MontezumaRevenge, not 'Pong'"),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(name, sentence):
    with pytest.raises(BadInputError, match=sentence):
        rom(name)
    if name.startswith("atari:"):
        with pytest.raises(BadInputError, match=sentence):
            sail.make_config(name)


def test_the_sixty_need_no_emulator_to_be_named(monkeypatch):
    monkeypatch.setattr(atari_settings, "find_spec", lambda name: None)
    assert rom("atari:Pong") == "pong"
    with pytest.raises(BadInputError, match="no Atari game 'MarioBros'"):
        rom("atari:MarioBros")


def test_without_the_emulator_it_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(BadInputError, match="pip install 'sail-rl"):
        AtariEnv(AtariSettings(name="atari:Pong"), 1)


def test_any_rom_of_the_emulator_can_be_played(make):
    env = make("MarioBros")
    rows = play(env, 3, lambda row: 1)
    assert [row.observation.shape for row in rows] == [(1, 84, 84)] * 3
    assert env.name == "atari:MarioBros"


# Actions --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (np.array([0, 6]), "atari:Pong has actions 0 to 5, not 6"),
        (np.array([-1, 0]), "actions 0 to 5, not -1"),
        (np.array([0]), r"takes 2 whole numbers as actions, not int64\[1\]"),
        (np.array([[0, 1]]), r"not int64\[1, 2\]"),
        (np.array(0), r"not int64\[\]"),
        (np.array([0.0, 1.0]), r"not float64\[2\]"),
        (np.array([True, False]), r"not bool\[2\]"),
        ([0, None], "not object"),
    ],
)
def test_actions_that_are_none_never_reach_the_emulator(make, actions, sentence):
    env = make("Pong", 2)
    first_rows(env)
    with pytest.raises(BadInputError, match=sentence):
        env.send(actions)
    # The emulators were not told anything, so they are still there to be told something else.
    for dtype in (np.uint8, np.int32, np.int64):
        env.send(np.array([0, 5], dtype))
        assert env.recv().stepped.all()


def test_actions_are_the_games_own_or_all_eighteen(make):
    assert make("Pong").action_names == PONG_ACTIONS
    env = make("Pong", actions="full")
    assert env.num_actions == 18 and env.action_names[0] == "NOOP" and env.action_names[-1] == "DOWNLEFTFIRE"
    rows = play(env, 5, lambda row: 17)
    assert rows[-1].stepped.all()
    with pytest.raises(BadInputError, match="actions 0 to 17, not 18"):
        env.send([18])


def test_an_action_is_that_of_its_name(make):
    """RIGHT is 2 of Pong's own actions, and 3 of all."""
    mine, full = make("Pong"), make("Pong", actions="full")
    right, same = play(mine, 40, lambda row: 2), play(full, 40, lambda row: 3)
    np.testing.assert_array_equal(right[-1].observation, same[-1].observation)
    left = play(make("Pong"), 40, lambda row: 3)
    assert not np.array_equal(right[-1].observation, left[-1].observation)


# Settings -------------------------------------------------------------------------------------------------------------


def test_a_lost_life_ends_an_episode_where_asked_for(make):
    """Breakout has five lives. Who only serves loses each of them."""
    whole = lengths(play(make("Breakout"), 400, lambda row: 1))
    lives = lengths(play(make("Breakout", life_loss_ends=True), 400, lambda row: 1))
    assert len(lives) >= 5
    assert 5 * max(lives[:5]) < 2 * whole[0] and abs(sum(lives[:5]) - whole[0]) <= 10


@pytest.mark.parametrize("limit", (1, 2, 17))
def test_the_time_limit_is_in_steps(make, limit):
    rows = play(make("Pong", time_limit=limit), 40)
    assert set(lengths(rows)) == {limit}
    assert [row.truncated[0] for row in rows[: limit + 2]] == [False] * limit + [True, False]
    assert not any(row.terminated[0] for row in rows)
    assert make("Pong", time_limit=limit).max_episode_steps == limit


def test_sticky_actions_make_environments_with_the_same_actions_differ(make):
    """Each environment has a seed of its own; without sticky actions Breakout has no use for it."""

    def film(sticky, seed):
        env = make("Breakout", 2, sticky=sticky)
        frames = [first_rows(env, seed).observation]
        return np.stack(frames + [act_on(env, [1 + step // 8 % 3] * 2).observation for step in range(60)], axis=1)

    calm, sticky = film(0.0, 3), film(0.25, 3)
    np.testing.assert_array_equal(calm[0], calm[1])
    assert not np.array_equal(sticky[0], sticky[1])
    np.testing.assert_array_equal(sticky, film(0.25, 3))  # the same seed, the same game
    assert not np.array_equal(sticky, film(0.25, 4))


def test_random_no_ops_begin_an_episode_where_asked_for(make):
    env = make("MsPacman", 4, noop_max=30)
    rows = first_rows(env)
    assert rows.begins.all() and len({frame.tobytes() for frame in rows.observation}) > 1
    calm = first_rows(make("MsPacman", 4))
    assert len({frame.tobytes() for frame in calm.observation}) == 1


def test_frames_are_sent_one_at_a_time_whatever_the_stack(make):
    env = make("Pong", stack=3)
    assert (env.stack, env.observation_shape, env.observation_dtype) == (3, (84, 84), np.uint8)
    rows = first_rows(env)
    assert rows.observation.shape == (1, 84, 84) and rows.observation.dtype == np.uint8
    assert Watched(env).see(rows).shape == (1, 3, 84, 84)


def test_a_reset_begins_anew_in_mid_episode(make):
    env = make("Breakout", 2, sticky=0.25)
    actions = np.random.default_rng(3).integers(4, size=(50, 2))

    def last():
        rows = first_rows(env, seed=7)
        assert rows.begins.all() and not rows.stepped.any()
        for both in actions:
            rows = act_on(env, both)
        return rows.observation

    np.testing.assert_array_equal(last(), last())


# Closing --------------------------------------------------------------------------------------------------------------


def threads():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
@pytest.mark.parametrize("how_far", ("made", "reset", "first rows", "sent", "answered"))
def test_closing_ends_the_threads_at_any_time_and_twice_is_once(make, how_far):
    before = threads()
    env = make("Pong", 3, threads=2)
    assert threads() > before
    if how_far != "made":
        env.reset(0)
    if how_far not in ("made", "reset"):
        env.recv()
    if how_far in ("sent", "answered"):
        env.send([0, 0, 0])
    if how_far == "answered":
        env.recv()
    env.close()
    env.close()
    assert threads() == before
