"""From what the slices of a phase give to its lines of JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sail.config import Config
from sail.training.learner import Diagnostics
from sail.training.program import Scores

_EPISODE_COLUMNS = ("return", "length", "success")


class Phase:
    """Sums up what the slices of one phase give, until its lines of metrics can be written.

    Everything is added in the order of the steps, so a phase that was interrupted, kept in a checkpoint (`to_json`)
    and gone on with ends in the same numbers.
    """

    def __init__(self, config: Config, first_step: int, in_vain: Any = 0) -> None:
        """`in_vain`: rounds of updates, of each seed, that were due before and had nothing to draw."""
        self.config = config
        self.first_step = self.step = first_step
        self._in_vain = np.zeros(config.seeds, int) + in_vain
        self._blocks_learned = np.zeros(config.seeds, int)
        self._sums = {name: np.zeros(config.seeds) for name in Diagnostics._fields}
        self._episodes = np.zeros(config.seeds, int)
        self._episode_sums = {name: np.zeros(config.seeds) for name in _EPISODE_COLUMNS}

    @classmethod
    def from_json(cls, config: Config, kept: dict[str, Any]) -> Phase:
        """The phase that `to_json` kept."""
        # Older checkpoints have one number of blocks for all seeds, and none of those that were in vain.
        phase = cls(config, int(kept["first_step"]), kept.get("in_vain", 0))
        phase.step = int(kept["step"])
        phase._blocks_learned = phase._blocks_learned + kept["blocks_learned"]
        phase._episodes = np.array(kept["episodes"], int).reshape(config.seeds)
        for name, sums in (("sums", phase._sums), ("episode_sums", phase._episode_sums)):
            for column in sums:
                sums[column] = np.array(kept[name][column], float).reshape(config.seeds)
        return phase

    def to_json(self) -> dict[str, Any]:
        """All of it, for a checkpoint."""
        return {
            "first_step": self.first_step,
            "step": self.step,
            "blocks_learned": self._blocks_learned.tolist(),
            "in_vain": self._in_vain.tolist(),
            "episodes": self._episodes.tolist(),
            "sums": {name: _without_nan(sums) for name, sums in self._sums.items()},
            "episode_sums": {name: _without_nan(sums) for name, sums in self._episode_sums.items()},
        }

    @property
    def end(self) -> int:
        """The step at which this phase is evaluated."""
        return min(self.first_step + self.config.phase_steps, self.config.steps)

    def next(self) -> Phase:
        """The phase after this one."""
        return Phase(self.config, self.step, self._in_vain)

    def add(self, diagnostics: Diagnostics, episodes: Sequence[dict[str, Any]], num_steps: int) -> None:
        """What a slice gave: diagnostics [seeds, blocks], the episodes that ended in it, and the steps it was long."""
        learned = _learned(diagnostics)
        for name, column in diagnostics._asdict().items():
            for block in np.flatnonzero(learned.any(axis=0)):
                self._sums[name] = self._sums[name] + np.where(learned[:, block], column[:, block], 0)
        self._blocks_learned += learned.sum(axis=1)
        self._in_vain += (self._due(num_steps) & ~learned).sum(axis=1)
        for row in episodes:
            seed = row["seed"] - self.config.seed
            self._episodes[seed] += 1
            for name in _EPISODE_COLUMNS:
                self._episode_sums[name][seed] += row.get(name, np.nan)
        self.step += num_steps

    def first_bad_step(self, diagnostics: Diagnostics) -> tuple[int, int] | None:
        """Seed and step of the first round of updates in a slice (not yet added) whose loss is not finite, if any."""
        bad = _learned(diagnostics) & ~np.isfinite(diagnostics.loss)
        if not bad.any():
            return None
        block = int(np.argmax(bad.any(axis=0)))
        seed = int(np.argmax(bad[:, block]))
        return self.config.seed + seed, self.step + (block + 1) * self.config.block_steps

    def metric_rows(self, scores: list[Scores] | None, epsilon: float, seconds: float) -> list[dict[str, Any]]:
        """A line for each seed. `seconds` is the run's training time so far; no scores mean there was no evaluation."""
        rows = []
        due = updates_at(self.config, self.step)
        in_round = self.config.block_steps // self.config.learning.update_period
        for i in range(self.config.seeds):
            row: dict[str, Any] = {
                "step": self.step,
                "seed": self.config.seed + i,
                "updates": due - int(self._in_vain[i]) * in_round,
                "epsilon": epsilon,
                "episodes": int(self._episodes[i]),
            }
            row |= {f"train_{name}": _mean(sums[i], self._episodes[i]) for name, sums in self._episode_sums.items()}
            if scores is not None:
                row |= score_columns(scores[i])
            row |= {name: _mean(sums[i], self._blocks_learned[i]) for name, sums in self._sums.items()}
            rows.append(row | {"seconds": round(seconds, 3)})
        return rows

    def _due(self, num_steps: int) -> Any:
        """[blocks] of the next slice: those that are followed by updates, if there is anything to draw."""
        block = self.config.block_steps
        taken = np.arange(self.step, self.step + num_steps, block) + block
        return taken >= self.config.learning.starts


def score_columns(scores: Scores) -> dict[str, Any]:
    """The evaluation's part of a line of metrics."""
    return {
        "eval_return": float(scores.returns.mean()),
        "eval_return_std": float(scores.returns.std()),
        "eval_length": float(scores.length.mean()),
        "eval_success": None if scores.success is None else float(scores.success.mean()),
        "eval_episodes": len(scores.returns),
    }


def updates_at(config: Config, step: int) -> int:
    """Updates due (for each seed) by the time `step` steps were taken: exact, whatever the block size.

    All of them were made, but for rounds that had nothing to draw.
    """
    block = config.block_steps
    learning_blocks = step // block - (-(-config.learning.starts // block) - 1)
    return max(learning_blocks, 0) * block // config.learning.update_period


def _learned(diagnostics: Diagnostics) -> Any:
    """[seeds, blocks]: where updates were made. Then a share is a number, however bad the networks are."""
    return ~np.isnan(diagnostics.known_share)


def _without_nan(sums: Any) -> list[float | None]:
    """JSON has no NaN; numpy reads None as one."""
    return [None if math.isnan(one) else one for one in sums.tolist()]


def _mean(total: Any, count: Any) -> float | None:
    mean = float(total / count) if count else math.nan
    return None if math.isnan(mean) else mean
