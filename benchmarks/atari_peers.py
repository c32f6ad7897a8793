"""sail and Stable-Baselines3's DQN on an Atari game: the same work under the same protocol, timed in the same way.

Every setting comes from one `sail.config.Config`. torch, stable_baselines3, gymnasium, ale_py and jax are imported only
by the functions that need them, so that neither side carries the other's libraries in its memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from timing import CORES, Timing

from sail.config import Config
from sail.envs.atari_settings import FRAME_SKIP, AtariSettings


@dataclass(frozen=True)
class SB3Variant:
    """A way of using Stable-Baselines3's DQN; all make one update per `update_period` steps."""

    label: str
    num_envs: int = 1
    steps_per_round: int = 4
    """Steps, over all environments, between two rounds of updates."""
    lean: bool = False
    """Stable-Baselines3's `optimize_memory_usage`: each observation is stored once instead of twice."""
    in_processes: bool = False
    """Whether every environment has a process of its own."""
    fused_adam: bool = False
    vector: bool = False
    """Whether the games are ale-py's vector environment, as sail's are, and not Gymnasium's wrappers in Python."""
    threads: int = min(2, CORES)
    """Of torch. Two wait for each other, which costs much where others use the machine."""


def sb3_variants(config: Config) -> dict[str, SB3Variant]:
    """As it comes; with the buffer that takes half; and with what else could make it faster, here and in processes."""
    period = config.learning.update_period
    envs, workers = 4 * CORES, 2 * CORES
    here = SB3Variant(f"{envs} envs, {12 * envs}-step rounds, lean, fused Adam", envs, 12 * envs, True, False, True)
    return {
        "sb3": SB3Variant("as it comes: 1 env", 1, period),
        "sb3-lean": SB3Variant("1 env, lean", 1, period, lean=True),
        "sb3-envs": here,
        "sb3-envs-1": replace(here, label=f"{here.label}; 1 thread", threads=1),
        "sb3-processes": SB3Variant(
            f"{workers} envs in processes, {24 * workers}-step rounds, lean, fused Adam",
            workers,
            24 * workers,
            lean=True,
            in_processes=True,
            fused_adam=True,
        ),
        "sb3-vector": SB3Variant(
            f"{envs} envs of ale-py's vector environment, {12 * envs}-step rounds, lean, fused Adam",
            envs,
            12 * envs,
            lean=True,
            fused_adam=True,
            vector=True,
        ),
        "sb3-vector-1": SB3Variant("as it comes, but ale-py's vector environment of 1", 1, period, vector=True),
    }


def make_env(settings: AtariSettings) -> Any:
    """The game in gymnasium under sail's protocol."""
    import ale_py
    import gymnasium
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
    from stable_baselines3.common.atari_wrappers import ClipRewardEnv

    gymnasium.register_envs(ale_py)
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    env = gymnasium.make(
        f"ALE/{settings.name.partition(':')[2]}-v5",
        frameskip=1,
        repeat_action_probability=settings.sticky,
        full_action_space=settings.actions == "full",
        max_num_frames_per_episode=settings.time_limit * FRAME_SKIP,
    )
    env = AtariPreprocessing(env, noop_max=settings.noop_max, frame_skip=FRAME_SKIP)
    return ClipRewardEnv(FrameStackObservation(env, settings.stack, padding_type="zero"))


def time_sb3(config: Config, variant: SB3Variant, seconds: float, device: str = "cpu") -> tuple[Timing, float]:
    """The whole loop past the start of learning with a full buffer, and the milliseconds of an update alone."""
    import torch

    torch.set_num_threads(variant.threads)
    torch.set_flush_denormal(True)  # as XLA does
    began = time.perf_counter()
    model = _model(config, variant, device)
    fill(model.replay_buffer)

    def advance(rounds: int) -> None:
        model.learn(rounds * variant.steps_per_round, log_interval=2**31, reset_num_timesteps=False)

    advance(2)
    first = time.perf_counter() - began
    update_ms = _update_alone(model, config.learning.batch_size, seconds / 4)
    steps, updates, each = model.num_timesteps, model._n_updates, max(1, 64 // variant.steps_per_round)
    started, cpu_started = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        advance(each)
    elapsed, cpu_elapsed = time.perf_counter() - started, time.process_time() - cpu_started
    steps, updates = model.num_timesteps - steps, model._n_updates - updates
    model.get_env().close()
    return Timing(steps, updates, elapsed, cpu_elapsed, first), update_ms


def _model(config: Config, variant: SB3Variant, device: str) -> Any:
    from atari_torch import sb3_games
    from stable_baselines3 import DQN
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    assert isinstance(config.env, AtariSettings) and config.optimiser.name == "adam"
    settings, learning, adam = config.env, config.learning, config.optimiser
    if variant.vector:
        games = sb3_games(settings, variant.num_envs)
    else:
        wrapped = [lambda: make_env(settings)] * variant.num_envs
        games = (SubprocVecEnv if variant.in_processes else DummyVecEnv)(wrapped)
    model = DQN(
        "CnnPolicy",  # its NatureCNN is sail's network `nature`
        games,
        learning_rate=adam.learning_rate,
        buffer_size=config.replay.capacity,
        learning_starts=0,  # the buffer is full from the beginning
        batch_size=learning.batch_size,
        gamma=config.agent.discount,
        train_freq=(variant.steps_per_round // variant.num_envs, "step"),
        gradient_steps=variant.steps_per_round // learning.update_period,
        target_update_interval=learning.target_period,
        exploration_initial_eps=config.exploration.end,
        exploration_final_eps=config.exploration.end,
        optimize_memory_usage=variant.lean,
        # The lean buffer cannot tell a time limit from an end; under this protocol it is one.
        replay_buffer_kwargs={"handle_timeout_termination": not config.replay.time_limit_is_terminal},
        policy_kwargs={"optimizer_kwargs": {"eps": adam.eps, **({"fused": True} if variant.fused_adam else {})}},
        device=device,
        seed=config.seed,
    )
    model.set_logger(Logger(None, []))  # or every call of `learn` makes one, with a folder
    return model


def fill(buffer: Any) -> None:
    """Makes a replay buffer full, with all of its pages in memory: fresh zeros would take none."""
    noise = np.random.default_rng(0).integers(0, 256, buffer.observations.shape[1:], np.uint8)
    buffer.observations[:] = noise
    if not buffer.optimize_memory_usage:
        buffer.next_observations[:] = noise
    for column in (buffer.actions, buffer.rewards, buffer.dones, buffer.timeouts):
        column[:] = 0
    buffer.pos, buffer.full = 0, True


def _update_alone(model: Any, batch_size: int, seconds: float) -> float:
    """Milliseconds of one update, without the environments."""
    made, started = 0, time.perf_counter()
    while made < 2 or time.perf_counter() - started < seconds:
        model.train(gradient_steps=2, batch_size=batch_size)
        made += 2
    return 1000 * (time.perf_counter() - started) / made


def time_sail(config: Config, seconds: float) -> tuple[Timing, float]:
    """The whole loop past the start of learning with a full ring, and the milliseconds of an update alone."""
    import jax

    from sail.training.host import HostProgram

    began = time.perf_counter()
    program = HostProgram(config)
    state = full(program.init())
    step, block = config.learning.starts, config.block_steps
    # Training waits for the device after each piece, of half a second to two: a block on a CPU, many on a GPU.
    piece = block if jax.default_backend() == "cpu" else 50 * block
    state = program.advance(state, step, 2 * block).state
    step += 2 * block
    jax.block_until_ready(state)
    first = time.perf_counter() - began

    learner, calls, started = state.learner, 0, time.perf_counter()
    while calls < 1 or time.perf_counter() - started < seconds / 4:
        learner = program.device.update(learner, state.ring, state.key, np.int32(step + calls))[0]
        jax.block_until_ready(learner)
        calls += 1
    update_ms = 1000 * (time.perf_counter() - started) / (calls * program.device.num_updates)

    state, before, steps = state._replace(learner=learner), _updates(learner), 0
    started, cpu_started = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        advance = program.advance(state, step, piece)
        if advance.failure is not None:
            raise advance.failure
        state, step, steps = advance.state, step + piece, steps + piece
    jax.block_until_ready(state)
    elapsed, cpu_elapsed = time.perf_counter() - started, time.process_time() - cpu_started
    updates = _updates(state.learner) - before
    program.close()
    return Timing(steps, updates, elapsed, cpu_elapsed, first), update_ms


def full(state: Any) -> Any:
    """The state with a ring that is full, of stripes, with all of its pages in memory."""
    import jax
    import jax.numpy as jnp

    def fill(ring: Any) -> Any:
        rows = jax.lax.broadcasted_iota(jnp.uint8, ring.observation.shape, 3)  # of [seeds, envs, slots, 84, 84]
        return ring._replace(
            observation=ring.observation + 7 * rows,
            size=jnp.full_like(ring.size, ring.action.shape[-1]),
            age=jnp.full_like(ring.age, 100),
            returns=jnp.zeros_like(ring.returns),
        )

    return state._replace(ring=jax.jit(fill, donate_argnums=0)(state.ring))


def _updates(learner: Any) -> int:
    """Updates made so far, as the optimiser has counted them."""
    return int(np.asarray(learner.optimiser[0].count)[0])
