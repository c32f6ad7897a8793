"""A sentence for whoever has set periods that hardly divide by anything: training is slow in small blocks."""

from __future__ import annotations

import math

from sail.config import Config

SMALL = 4
"""A block is small if it could be so many times as large, by `learning.max_block` and by how long the periods are."""


def small_block_note(config: Config) -> str | None:
    """What makes a run's blocks small, and the nearest period with which they would not be; None if they are not."""
    target, evaluation, block = config.learning.target_period, config.evaluation.period, config.block_steps
    if SMALL * block >= min(config.learning.max_block, target, evaluation):
        return None
    # With the one period as it is, the other can be the nearest multiple of whatever divides the first.
    by_target, by_evaluation = _largest(config, evaluation, target), _largest(config, target, evaluation)
    if max(by_target, by_evaluation) <= block:
        advice = "rounder periods would allow more."
    elif by_target >= by_evaluation:
        advice = f"a target period of {_nearest(target, by_target):,} would allow {by_target:,}."
    else:
        advice = f"an evaluation period of {_nearest(evaluation, by_evaluation):,} would allow {by_evaluation:,}."
    return (
        f"Updates come in blocks of {block:,} steps, since that is what divides the target period ({target:,}) and the "
        f"evaluation period ({evaluation:,}). Larger blocks are faster: {advice}"
    )


def _largest(config: Config, kept: int, changed: int) -> int:
    """The largest block that divides one period, and that a multiple near the other can have."""
    unit = config.step_unit
    most = min(config.learning.max_block, kept, changed)
    return max((d for d in range(unit, most + 1, unit) if kept % d == 0), default=unit)


def _nearest(period: int, block: int) -> int:
    """The multiple of a block that is nearest to a period, which is no shorter than it."""
    return math.floor(period / block + 0.5) * block
