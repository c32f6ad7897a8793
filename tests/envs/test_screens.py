"""Screens made small on the device have the bits of those that the emulators make small."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sail.config import make_config
from sail.envs import make_pools
from sail.envs.atari import whole_screen
from sail.envs.atari_colours import palette
from sail.envs.atari_settings import AtariSettings
from sail.envs.crew import CrewPool
from sail.envs.shrinking import shrink, taps
from sail.errors import BadInputError
from sail.training.host import HostProgram

cv2 = pytest.importorskip("cv2")
pytest.importorskip("ale_py")

SCREENS = {"Pong": (210, 160), "Carnival": (214, 160), "Pooyan": (220, 160), "JourneyEscape": (230, 160)}
SCREENS["AirRaid"] = (250, 160)
small = jax.jit(lambda screens, zero: shrink(screens, 84, 84, zero))


def screens(kind: str, height: int, width: int) -> Any:
    """Of two greys or in stripes many means lie halfway between two greys."""
    rng = np.random.default_rng(0)
    match kind:
        case "noise":
            return rng.integers(0, 256, (12, height, width), np.uint8)
        case "two greys":
            return rng.choice(np.array([100, 101], np.uint8), (12, height, width))
        case _:
            return np.repeat(rng.integers(0, 256, (12, height, 1), np.uint8), width, axis=2)


def grey(rows: Any, env: AtariSettings) -> Any:
    """Screens as they are in rows, made grey and pooled if they are two in colours."""
    return palette(env)[rows.observation].max(axis=1) if rows.observation.ndim == 4 else rows.observation


def covered(size: int, to: int) -> Any:
    """[to, size] how much of each pixel each small one covers, in whole parts of which a small one has `size`."""
    i, n = np.arange(to)[:, None], np.arange(size)
    return np.maximum(np.minimum((i + 1) * size, (n + 1) * to) - np.maximum(i * size, n * to), 0)


@pytest.mark.parametrize("kind", ["noise", "two greys", "stripes"])
@pytest.mark.parametrize("size", SCREENS.values())
def test_the_bits_of_opencv(size: tuple[int, int], kind: str) -> None:
    whole = screens(kind, *size)
    expected = [cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA) for screen in whole]
    np.testing.assert_array_equal(small(whole, jnp.int32(0)), expected)


def test_the_same_bits_from_optimised_programs() -> None:
    """The others run what compiles fast. Optimised, a product and a sum would be one operation, were they not apart."""
    code = (
        "import cv2, jax, jax.numpy as jnp, numpy as np\n"
        "from sail.envs.shrinking import shrink\n"
        "whole = np.random.default_rng(0).integers(0, 256, (40, 210, 160), np.uint8)\n"
        "expected = [cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA) for screen in whole]\n"
        "found = jax.jit(lambda screens, zero: shrink(screens, 84, 84, zero))(whole, jnp.int32(0))\n"
        "np.testing.assert_array_equal(found, expected)\n"
    )
    plain = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_every_pixel_is_the_mean_of_what_it_covers() -> None:
    """In whole numbers. And means that lie halfway go either way, so that equal bits are no matter of course."""
    whole = screens("noise", 210, 160)
    sums, parts = covered(210, 84) @ whole.astype(np.int64) @ covered(160, 84).T, 210 * 160
    found = np.asarray(small(whole, jnp.int32(0)), np.int64)
    halfway = 2 * sums % (2 * parts) == parts
    np.testing.assert_array_equal(found[~halfway], ((2 * sums + parts) // (2 * parts))[~halfway])
    up = found[halfway] - sums[halfway] // parts
    assert set(up.tolist()) == {0, 1} and len(set((up + sums[halfway] // parts) % 2)) == 2  # nor always to the even one


@settings(max_examples=60, deadline=None)
@given(to=st.integers(1, 120), more=st.integers(1, 200))
def test_weights_are_what_is_covered(to: int, more: int) -> None:
    size = to + more
    pixels, weights = taps(size, to)
    dense = np.zeros((to, size))
    np.add.at(dense, (np.arange(to)[:, None], pixels), weights)
    np.testing.assert_allclose(dense, covered(size, to) / size, atol=2e-3)  # parts below a thousandth are left out
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=4e-3)


@pytest.mark.parametrize("game", SCREENS)
def test_whole_screens_made_small_are_the_small_ones(game: str) -> None:
    """Also those that processes play, and nothing but the screens is different."""
    plain = AtariSettings(name=f"atari:{game}", processes=0, give_way=False, time_limit=15)
    assert whole_screen(plain) == SCREENS[game]
    made = [make_pools(plain, 1, 3), make_pools(plain, 1, 3, whole_screens=True)]
    if game in ("Carnival", "AirRaid"):
        made.append(make_pools(replace(plain, processes=2), 1, 3, whole_screens=True))
    try:
        pools = [pools[0] for pools, _ in made]
        rng = np.random.default_rng(0)
        seen = set()
        for pool in pools:
            pool.reset(5)
        for _ in range(40):
            rows = [pool.recv() for pool in pools]
            seen.add(rows[0].observation.tobytes())
            for one, two in zip(rows[1:], [(), (2,)], strict=False):
                assert one.observation.shape == (3, *two, *SCREENS[game])
                np.testing.assert_array_equal(small(grey(one, plain), jnp.int32(0)), rows[0].observation)
                for name in set(one._fields) - {"observation", "closing"}:
                    np.testing.assert_array_equal(getattr(one, name), getattr(rows[0], name))
            actions = rng.integers(pools[0].num_actions, size=3)
            for pool in pools:
                pool.send(actions)
        assert len(seen) > 10
    finally:
        for pools, crew in made:
            for pool in pools:
                pool.close()
            if crew is not None:
                crew.close()


# Ends of all kinds, at any of a step's four frames: games that are lost, lives, time limits.
@pytest.mark.parametrize(
    ("game", "changes", "ends"),
    [
        ("Breakout", {"life_loss_ends": True}, 20),
        ("Breakout", {"time_limit": 37, "sticky": 0.0}, 20),
        ("Freeway", {"actions": "full", "time_limit": 50}, 10),
        ("Breakout", {}, 4),
    ],
)
def test_processes_play_in_colours_bit_for_bit_as_threads_in_grey(game: str, changes: Any, ends: int) -> None:
    plain = AtariSettings(name=f"atari:{game}", **{"processes": 0, "give_way": False, **changes})
    ((threads,), _), ((processes,), crew) = (
        make_pools(replace(plain, processes=number), 1, 4, whole_screens=True) for number in (0, 2)
    )
    assert crew is not None
    try:
        rng, seen, over = np.random.default_rng(0), set(), 0
        for pool in (threads, processes):
            pool.reset(5)
        for _ in range(500):
            expected, found = threads.recv(), processes.recv()
            for name in set(found._fields) - {"closing", "observation"}:
                np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
            np.testing.assert_array_equal(grey(found, plain), expected.observation)
            seen.add(found.observation.tobytes())
            over += int((found.terminated | found.truncated).sum())
            actions = rng.integers(threads.num_actions, size=4)
            for pool in (threads, processes):
                pool.send(actions)
        assert len(seen) > 400 and over >= ends
    finally:
        threads.close()
        crew.close()


def config(game: str = "Pong", **changes: Any) -> Any:
    tree: dict[str, Any] = {
        "env": {"time_limit": 30, "give_way": False, "processes": 0},
        "agent": {"network": "mlp", "hidden": [8]},
        "replay": {"capacity": 400},
        "learning": {"num_envs": 6, "num_pools": 3, "starts": 40, "batch_size": 4, "max_block": 20},
    }
    for section, values in changes.items():
        tree[section] = tree.get(section, {}) | values if isinstance(values, dict) else values
    return make_config(f"atari:{game}", "sail-dqn", tree)


@pytest.mark.parametrize(
    ("game", "seeds", "noops"), [("Pong", 1, 0), ("Pong", 2, 0), ("AirRaid", 1, 0), ("Pong", 1, 20)]
)
def test_training_is_the_same_whoever_plays_and_makes_screens_grey_and_small(
    game: str, seeds: int, noops: int, monkeypatch: Any
) -> None:
    """In colours of both palettes where processes play, and in grey with no-ops or threads."""
    send, recv = CrewPool.send, CrewPool.recv
    given: dict[CrewPool, Any] = {}

    def remembering(self: CrewPool, *arguments: Any) -> Any:
        rows = recv(self, *arguments)
        given[self] = rows.observation.copy()  # the games need theirs
        return rows._replace(observation=given[self])

    def overwriting(self: CrewPool, actions: Any) -> None:
        given[self][:] = 255  # as games do from here on: it must have been read
        send(self, actions)

    monkeypatch.setattr(CrewPool, "recv", remembering)
    monkeypatch.setattr(CrewPool, "send", overwriting)
    learned = []
    for resize, processes in (("emulator", 0), ("emulator", 2), ("device", 0), ("device", 2)):
        env = {"noop_max": noops, "resize": resize, "processes": processes}
        program = HostProgram(config(game, env=env, seeds=seeds))
        assert program.device.shrinks == (resize == "device")
        try:
            done = program.advance(program.init(), 0, 240)
            assert done.failure is None and len(done.episodes) >= 4
            learned.append(jax.device_get((done.state.learner.params, done.state.ring.observation, done.episodes)))
        finally:
            program.close()
    for other in learned[1:]:
        jax.tree.map(np.testing.assert_array_equal, learned[0], other)


@pytest.mark.parametrize("changes", [{"replay": {"frames": "host"}}, {"checkpoint": {"replay": True}}])
def test_the_device_makes_them_small_only_where_nobody_else_wants_them(changes: Any) -> None:
    with pytest.raises(BadInputError, match=r"^env\.resize device is for .* leave it at auto\.$"):
        HostProgram(config(env={"resize": "device"}, **changes))
    assert not HostProgram(config(**changes)).device.shrinks


def test_on_a_gpu_that_is_the_default(monkeypatch: Any) -> None:
    assert not HostProgram(config()).device.shrinks
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert HostProgram(config()).device.shrinks
    assert not HostProgram(config(env={"resize": "emulator"})).device.shrinks
    assert not HostProgram(config(replay={"frames": "host"})).device.shrinks
    assert not HostProgram(config(checkpoint={"replay": True})).device.shrinks
