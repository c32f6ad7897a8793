"""The host loop: environments outside the compiled program, in threads or processes; everything else on the device.

A round takes what some emulators of each seed have answered, picks their next actions, and has the rows written into
the ring. As soon as the steps of a block are in, its updates are asked for (`learner_thread`). Emulators come in pools
that take turns: some play while the device thinks about the others, and what the loop waits for is the rows of the pool
that is due. Everything is done in one order, so a seed gives the same run again.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import jax
import numpy as np

from sail import envs
from sail.agents.base import Params
from sail.config import Config
from sail.envs.host import Rows
from sail.errors import SailError
from sail.replay.host_frames import HostFrames
from sail.training.emulators import Pools, together
from sail.training.host_device import DeviceSide, HostState, Saved
from sail.training.host_evaluation import evaluate_seed
from sail.training.journal import DamagedJournalError, Journal
from sail.training.learner import Diagnostics
from sail.training.learner_thread import Learned, LearnerThread, nothing_learned
from sail.training.parcels import Chosen, pack
from sail.training.program import Advance, Scores, epsilon_of, make_agent

FILL_ROWS = 8  # environments whose returns are filled in at once


class HostProgram:
    """A config made executable. It owns the emulators, which start with `init` or `restore`."""

    def __init__(self, config: Config) -> None:
        self.config = config
        num_envs = config.learning.num_envs
        env = self.env = envs.make_host(config.host_env, 1)  # only to be asked for shapes
        env.close()
        self.observation_shape = (env.stack, *env.observation_shape) if env.stack > 1 else env.observation_shape
        self.agent = make_agent(config, self.observation_shape, env.observation_dtype, env.num_actions)
        self.device = DeviceSide(config, env, self.agent)
        self.pools: Pools | None = None
        self._taken = np.zeros(config.seeds, np.int64)
        self._rounds = np.zeros(config.seeds, np.int32)
        self._episodes: list[dict[str, Any]] = []
        self._scores = np.zeros((config.seeds, num_envs))
        self._lengths = np.zeros((config.seeds, num_envs), np.int64)
        self._host_frames: list[HostFrames] = []
        self._learner_thread = LearnerThread(config, self.device)
        self._journal: Journal | None = None

    def attach(self, folder: Path) -> None:
        """Where the ring is kept, if it is."""
        config = self.config
        if config.checkpoint.replay and self._journal is None:
            # The oldest file may begin in mid-episode: a stack's worth of slots is played again and then overwritten.
            needed = config.ring_length + config.stack + 1
            self._journal = Journal(
                folder / "replay", config.seeds, config.learning.num_envs, needed, config.checkpoint.keep
            )

    def init(self) -> HostState:
        """All seeds at step 0, and the emulators begun."""
        state = self._with_empty_ring(self.device.init())  # first: if it does not fit, nothing was started
        self._start(0)
        return state

    def params(self, state: HostState) -> Params:
        """The networks [seeds, ...]."""
        return state.learner.params

    def target_params(self, state: HostState) -> Params:
        """The target networks [seeds, ...]."""
        return state.learner.target

    def saved(self, state: HostState) -> Saved:
        """The learner: emulators cannot be saved, and the ring is filled again or kept on its own."""
        return Saved(state.learner, state.key)

    def saved_like(self) -> Saved:
        """Shapes and types of `saved`."""
        return self.device.saved_like()

    def restore(self, saved: Saved, meta: dict[str, Any], note: Callable[[str], None]) -> HostState:
        """The learner as it was, and the ring as it was kept.

        A ring that was not kept is filled again by the learner's policy, at its epsilon, before learning goes on.
        Where all steps are taken it does not go on: what is missing is an evaluation.
        """
        step = int(meta["step"])
        if self._journal is not None and meta.get("replay"):
            try:
                return self._replay(saved, meta["replay"], self._journal)
            except DamagedJournalError as error:
                note(f"The replay ring that was kept cannot be read ({error}).")
        state = self._with_empty_ring(saved)
        if step >= self.config.steps:
            return state
        refill = min(step, self.config.replay.capacity)
        note(f"The replay ring is not there: filling it with {refill:,} new steps first, which do not count.")
        self._taken[:] = step - refill
        self._start(step)
        self._begin(state)
        self._collect(step, epsilon_step=step)
        self._taken[:] = step
        self._episodes = []
        self._scores[:] = 0.0
        self._lengths[self._lengths > 0] = -(2**40)  # episodes that began before do not count either
        # What does not count does not count for curiosity either.
        return self._end()._replace(learner=saved.learner)

    def _replay(self, saved: Saved, files: Any, journal: Journal) -> HostState:
        """Fills an empty ring with what a journal has kept. The episodes that were running are interrupted there."""
        state = self._with_empty_ring(saved)
        ring, walkers = state.ring, state.walkers
        for rows, actions, begins in journal.read(files):
            if begins:  # a run was resumed here: what had been running was lost
                ring = self.device.cut_off(ring)
            ring, walkers = self.device.write_past(ring, walkers, state.learner.curiosity, rows, actions)
            for seed, frames in enumerate(self._host_frames):
                own = Rows(*[None if column is None else column[seed] for column in rows])
                there = own.env < self.config.learning.num_envs
                own = Rows(*[None if column is None else column[there] for column in own])
                frames.extend(own.env, own.observation, own.closing, own.stepped, own.terminated | own.truncated)
        return state._replace(ring=self.device.cut_off(ring), walkers=walkers)

    def checkpoint_meta(self) -> dict[str, Any]:
        """The files that hold the ring, if it is kept."""
        return {} if self._journal is None else {"replay": self._journal.flush()}

    def advance(self, state: HostState, step: int, num_steps: int) -> Advance:
        """Every seed `num_steps` steps further. `state` is used up."""
        self._taken = np.maximum(self._taken, step)
        self._start(step)
        assert self.pools is not None
        self._begin(state)
        episodes: list[dict[str, Any]] = []
        diagnostics: list[Any] = []  # and not networks: a slice of hundreds of blocks would keep them all
        newest: Future[Learned] | None = None
        to_act, failure = self.device.to_act_after(state.learner.params, step), None
        block = self.config.block_steps
        try:
            for boundary in range(step + block, step + num_steps + 1, block):
                # Steps beyond a boundary belong to the next block: updates are exact, however many come in at once.
                self._collect(boundary)
                if self._host_frames:
                    self.pools.deliver()  # since learning, too, will wait for the device
                elif newest is not None:
                    self.pools.wait_for(newest)  # and not for all actions: the device would be through before that
                if newest is not None:
                    to_act, one = self._learner_thread.result(newest)
                    diagnostics.append(one)
                newest = self._learner_thread.learn(boundary)
                if to_act is not None:
                    self._acting = to_act
                over = [row for row in self._episodes if row["step"] <= boundary]
                episodes += sorted(over, key=lambda row: (row["step"], row["seed"]))
                self._episodes = [row for row in self._episodes if row["step"] > boundary]
            self.pools.deliver()  # games go on meanwhile
        except SailError as error:
            failure = error
        try:
            if newest is not None:
                diagnostics.append(self._learner_thread.result(newest).diagnostics)
            state = self._end()
        except Exception as error:
            raise error from failure
        found = [np.asarray(one) for one in diagnostics]
        columns = np.stack(found, axis=-1) if found else nothing_learned(self.config)[..., None][..., :0]
        return Advance(state, len(found) * block, Diagnostics(*columns.swapaxes(0, 1)), episodes, failure)

    def learn(self, state: HostState, step: int) -> HostState:
        """The updates of the block up to `step` alone, for whoever wants to know how long they take.

        `state` is used up.
        """
        self._begin(state)
        self._learner_thread.learn_now(step)
        return self._end()

    def _begin(self, state: HostState) -> None:
        """Takes a state apart: into what the rounds change, and what learning does."""
        self._walkers, self._key, self._acting = state.walkers, state.key, state.acting
        self._learner_thread.begin(state)

    def _end(self) -> HostState:
        """And together again, once all that was asked for is on its way to the device."""
        return HostState(*self._learner_thread.end(), self._walkers, self._key, self._acting)

    @property
    def bytes_on_host(self) -> int:
        """What of the ring is in this machine's memory."""
        return sum(frames.frames.nbytes for frames in self._host_frames)

    def evaluate(
        self, params: Params, step: int, *, epsilon: float, episodes: int | None = None, steps: int | None = None
    ) -> list[Scores]:
        """Plays in environments of its own, one seed after the other."""
        scores = []
        for i in range(self.config.seeds):
            seed = int(np.random.SeedSequence([self.config.seed + i, step]).generate_state(1)[0]) % 2**31
            own = jax.tree.map(lambda x, i=i: x[i], params)
            scores.append(evaluate_seed(self.config, self.agent, own, seed, epsilon, episodes, steps))
        return scores

    def look(self, params: Params) -> list[dict[str, float]]:
        """Outside environments point out nothing."""
        return [{} for _ in range(self.config.seeds)]

    def close(self) -> None:
        """Ends the emulators, the learner's thread and the journal."""
        if self.pools is not None:
            self.pools.close()
        self.pools = None
        self._learner_thread.close()
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _with_empty_ring(self, saved: Saved) -> HostState:
        config, env = self.config, self.env
        if self.device.frames_on_host:
            self._host_frames = [
                HostFrames(env.observation_shape, env.observation_dtype, config.learning.num_envs, config.ring_length)
                for _ in range(config.seeds)
            ]
            self._learner_thread.read_frames_from(self._host_frames)
        return self.device.with_empty_ring(saved)

    def _start(self, step: int) -> None:
        """Begins an episode everywhere. From another step on, they are other episodes."""
        if self.pools is None:
            self._rounds[:] = step
            self.pools = Pools(self.config, step, self.device.shrinks)

    def _collect(self, boundary: int, epsilon_step: int | None = None) -> None:
        """Rounds until every seed has taken its steps.

        A round takes rows from every seed that has steps to go, picks actions, and has the rows written into the ring.
        """
        assert self.pools is not None
        while len(asked := np.flatnonzero(self._taken < boundary)):
            pools, answers = self.pools.rows(asked)
            steps = self._taken if epsilon_step is None else np.full_like(self._taken, epsilon_step)
            self._rounds[asked] += 1  # each seed its own, so that none depends on its neighbours
            rows = together(answers, screens_apart=self.device.shrinks)
            parcel = pack(rows, self._rounds, epsilon_of(self.config, steps))
            self._walkers, news, actions = self.device.walk(self._acting, self._walkers, self._key, parcel)
            actions.copy_to_host_async()
            for seed, pool in zip(asked, pools, strict=True):
                pool.act(Chosen(actions, int(seed)))
            self._learner_thread.write(news)
            ended = [self._account(seed, answers[seed]) for seed in asked]
            self._fill_returns(asked, ended)
            if self._journal is not None:
                self._journal.add(rows, actions)

    def _account(self, seed: Any, rows: Any) -> Any:
        """Counts steps and scores of one seed's rows; gives the environments whose episodes ended."""
        steps = self._taken[seed] + np.cumsum(rows.stepped)
        self._taken[seed] = steps[-1]
        ended = rows.terminated | rows.truncated
        if self._host_frames:
            self._host_frames[seed].extend(rows.env, rows.observation, rows.closing, rows.stepped, ended)
        scores, lengths = self._scores[seed], self._lengths[seed]
        scores[rows.env] += np.where(rows.stepped, rows.reward, 0.0)
        lengths[rows.env] += rows.stepped
        over, number = rows.env[ended], self.config.seed + int(seed)
        self._episodes += [
            {"step": int(step), "seed": number, "return": float(scores[env]), "length": int(lengths[env])}
            for step, env in zip(steps[ended], over, strict=True)
            if lengths[env] > 0
        ]
        scores[over], lengths[over] = 0.0, 0
        return over

    def _fill_returns(self, asked: Any, ended: list[Any]) -> None:
        """Gives the episodes that have just ended their returns. The host knows which, so the device need not look."""
        for first in range(0, max((len(over) for over in ended), default=0), FILL_ROWS):
            rows = np.zeros((self.config.seeds, FILL_ROWS), np.int32)  # a row without news is filled in vain
            for seed, over in zip(asked, ended, strict=True):
                some = over[first : first + FILL_ROWS]
                rows[seed, : len(some)] = some
            self._learner_thread.fill(rows)
