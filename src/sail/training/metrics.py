"""From the arrays of a phase to lines of JSON."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sail.config import Config
from sail.training.evaluation import Scores
from sail.training.learner import Diagnostics
from sail.training.on_device import Episodes


class Phase:
    """Collects what the slices of one phase give, until its line of metrics can be written."""

    def __init__(self, config: Config, first_step: int) -> None:
        self.config = config
        self.first_step = self.step = first_step
        self._diagnostics: list[dict[str, Any]] = []
        self._episodes: list[list[dict[str, Any]]] = []

    def add(self, diagnostics: Diagnostics, episodes: Episodes, num_steps: int) -> None:
        """The arrays of one slice, and the steps it was long."""
        first, self.step = self.step, self.step + num_steps
        self._diagnostics.append({name: np.asarray(x) for name, x in diagnostics._asdict().items()})
        self._episodes.append(self._episode_rows(jax.tree.map(np.asarray, episodes), first))

    def first_bad_step(self) -> tuple[int, int] | None:
        """Seed and step of the first round of updates whose loss was not finite, if there is one."""
        loss = self._column("loss")  # [seeds, blocks]
        bad = self._learned() & ~np.isfinite(loss)
        if not bad.any():
            return None
        block = int(np.argmax(bad.any(axis=0)))
        seed = int(np.argmax(bad[:, block]))
        return self.config.seed + seed, self.first_step + (block + 1) * self.config.block_steps

    def episode_rows(self) -> list[dict[str, Any]]:
        """The episodes that ended, in the order of their steps."""
        return [row for rows in self._episodes for row in rows]

    def metric_rows(self, scores: Scores, epsilon: float, seconds: float) -> list[dict[str, Any]]:
        """One line for each seed. `seconds` is the run's training time so far."""
        learned, episodes = self._learned(), self.episode_rows()
        by_seed: dict[int, list[dict[str, Any]]] = {}
        for episode in episodes:
            by_seed.setdefault(episode["seed"], []).append(episode)
        diagnostics = {name: self._column(name)[:, learned] for name in Diagnostics._fields}
        rows = []
        for i in range(self.config.seeds):
            seed = self.config.seed + i
            mine = by_seed.get(seed, [])
            row: dict[str, Any] = {
                "step": self.step,
                "seed": seed,
                "updates": updates_at(self.config, self.step),
                "epsilon": epsilon,
                "episodes": len(mine),
                "train_return": _mean([row["return"] for row in mine]),
                "train_length": _mean([row["length"] for row in mine]),
                "train_success": _mean([row["success"] for row in mine]),
                "eval_return": float(scores.returns[i].mean()),
                "eval_return_std": float(scores.returns[i].std()),
                "eval_length": float(scores.length[i].mean()),
                "eval_success": float(scores.success[i].mean()),
                "eval_episodes": int(scores.returns.shape[1]),
            }
            row |= {name: _mean(column[i]) for name, column in diagnostics.items()}
            rows.append(row | {"seconds": round(seconds, 3)})
        return rows

    def _column(self, name: str) -> Any:
        return np.concatenate([part[name] for part in self._diagnostics], axis=1)

    def _learned(self) -> Any:
        """[blocks]: those that were followed by updates."""
        taken = np.arange(self.first_step, self.step, self.config.block_steps) + self.config.block_steps
        return taken >= self.config.learning.starts

    def _episode_rows(self, episodes: Episodes, first_step: int) -> list[dict[str, Any]]:
        # [seeds, blocks, K, E]: sort by time, then by seed and environment, as they would have been seen in one go.
        seed, block, k, env = np.nonzero(episodes.ended)
        num_envs = self.config.learning.num_envs
        step = first_step + block * self.config.block_steps + (k + 1) * num_envs
        at = (seed, block, k, env)
        columns = (step, seed + self.config.seed, episodes.score[at], episodes.length[at], episodes.success[at])
        order = np.lexsort((env, seed, step))
        names = ("step", "seed", "return", "length", "success")
        return [
            dict(zip(names, row, strict=True))
            for row in zip(*(np.asarray(column)[order].tolist() for column in columns), strict=True)
        ]


def updates_at(config: Config, step: int) -> int:
    """Updates made (for each seed) by the time `step` steps were taken: exact, whatever the block size."""
    block = config.block_steps
    learning_blocks = step // block - (-(-config.learning.starts // block) - 1)
    return max(learning_blocks, 0) * block // config.learning.update_period


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
