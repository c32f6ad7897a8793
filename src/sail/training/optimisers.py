"""The optimisers of the published agents, with the formulas of the framework they were published on."""

from __future__ import annotations

import optax

from sail.settings import AdamSettings, OptimiserSettings


def make_optimiser(settings: OptimiserSettings) -> optax.GradientTransformation:
    """The optimiser that the settings describe."""
    if isinstance(settings, AdamSettings):
        return optax.adam(settings.learning_rate, b1=settings.b1, b2=settings.b2, eps=settings.eps)
    # TensorFlow's RMSProp: epsilon inside the root, second moment starting at one, so that first steps are short.
    return optax.rmsprop(
        settings.learning_rate,
        decay=settings.decay,
        eps=settings.eps,
        centered=settings.centered,
        initial_scale=settings.initial_scale,
        eps_in_sqrt=True,
    )
