"""One update of any base agent, written down once more: numpy, float64, and no line shared with the library."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from sail import replay
from sail.training.learner import LEARNING, Learner, LearnerState


class Update(NamedTuple):
    """What an update of B transitions should be."""

    losses: np.ndarray  # [B]
    slopes: np.ndarray  # [B, A, numbers] how the losses change with what the head says
    bonus: np.ndarray  # [B]
    disagree: np.ndarray  # [B] where the next action is not the target network's own choice


def dense(layer: Any, x: np.ndarray) -> np.ndarray:
    return x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)


def numpy_head(head: Any, x: np.ndarray) -> np.ndarray:
    def stream(layers: Any) -> np.ndarray:
        return dense(layers.out, np.maximum(dense(layers.hidden, x), 0))

    advantage = stream(head.advantage).reshape(*x.shape[:-1], head.num_actions, -1)
    if head.value is None:
        return advantage
    return stream(head.value)[..., None, :] + advantage - advantage.mean(-2, keepdims=True)


def softmax(x: np.ndarray) -> np.ndarray:
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def distributions(params: Any, agent: Any, x: np.ndarray, taus: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What a network says, for every base alike: values [B, A, S] and their probabilities."""
    for layer in params.torso.layers:
        x = np.maximum(dense(layer, x), 0)
    if hasattr(agent, "cosines"):
        cosines = np.cos(np.pi * np.arange(1, agent.cosines + 1) * np.asarray(taus, np.float64)[..., None])
        embedded = np.maximum(dense(params.embedding, cosines), 0)
        values = numpy_head(params.head, x[:, None] * embedded)[..., 0].swapaxes(1, 2)
        return values, np.full(values.shape, 1 / values.shape[-1])
    numbers = numpy_head(params.head, x)
    if hasattr(agent, "atoms"):
        return np.broadcast_to(np.linspace(agent.vmin, agent.vmax, agent.atoms), numbers.shape), softmax(numbers)
    return numbers, np.ones(numbers.shape)


def projected(atoms: np.ndarray, probabilities: np.ndarray, agent: Any) -> np.ndarray:
    """Atom by atom: to the neighbour below and the neighbour above (Alg. 1 of Bellemare et al., 2017)."""
    result = np.zeros(agent.atoms)
    for atom, probability in zip(atoms, probabilities, strict=True):
        place = (np.clip(atom, agent.vmin, agent.vmax) - agent.vmin) / (agent.vmax - agent.vmin) * (agent.atoms - 1)
        below = int(np.floor(place))
        result[below] += probability * (below + 1 - place)
        if place > below:
            result[below + 1] += probability * (place - below)
    return result


def fractions(agent: Any, key: Any, batch: int) -> dict[str, np.ndarray]:
    """The fractions that an update of IQN draws from this key: nothing here but the order of its splits."""

    def uniform(key: Any, number: int) -> np.ndarray:
        return np.asarray(jax.random.uniform(jax.random.split(key)[0], (batch, number)))

    look_key, loss_key = jax.random.split(jax.random.fold_in(key, LEARNING))
    here, after = jax.random.split(jax.random.split(look_key)[0])
    loss_key, choice_key = jax.random.split(jax.random.split(loss_key, 1)[0])
    return {
        "here": uniform(here, agent.action_quantiles),
        "after": uniform(after, agent.target_quantiles + agent.action_quantiles),
        "loss": uniform(loss_key, agent.quantiles),
        "choice": uniform(choice_key, agent.action_quantiles),
    }


def transition(ring: Any, row: int, slot: int, n_step: int, discount: float) -> tuple[float, float, np.ndarray]:
    """Reward, discount and next observation of one transition, step by step along the ring."""
    reward = 0.0
    for step in range(n_step):
        reward += discount**step * float(ring.reward[row, slot + step])
        end = ring.end[row, slot + step]
        if end != replay.GOES_ON:
            break
    left = 0.0 if end == replay.TERMINATED else discount ** (step + 1)
    return reward, left, ring.observation[row, slot + step + 1].astype(np.float64)


def expected_update(learner: Learner, state: LearnerState, ring: Any, drawn: Any, key: Any) -> Update:
    """From the places that were drawn, and from the key for what IQN draws."""
    agent: Any = learner.agent
    rule, alpha, tau, size = learner.rule.name, learner.rule.alpha, learner.rule.tau, learner.batch_size
    ring, drawn = jax.tree.map(np.asarray, (ring, drawn))
    row, slot, action, i = drawn.slots.row, drawn.slots.slot, drawn.batch.action, np.arange(size)
    steps = [transition(ring, *at, learner.sampling.n_step, learner.discount) for at in zip(row, slot, strict=True)]
    reward, left, after = (np.array(column) for column in zip(*steps, strict=True))
    x, g = ring.observation[row, slot].astype(np.float64), ring.returns[row, slot].astype(np.float64)
    taus = (
        fractions(agent, key, size) if hasattr(agent, "cosines") else dict.fromkeys(("here", "after", "loss", "choice"))
    )

    def q_values(params: Any, x: np.ndarray, which: str) -> np.ndarray:
        values, probabilities = distributions(params, agent, x, taus[which])
        return (values * probabilities).sum(-1)

    # The rule's bonus.
    q = q_values(state.target, x, "here")
    best, taken = q.max(1), q[i, action]
    policy_here = softmax(q / tau)[i, action]
    bonus = {
        "bellman": np.zeros(size),
        "sail": alpha * np.clip(np.maximum(g, taken) - best, -1, 1),
        "munchausen": alpha * np.clip(tau * np.log(policy_here), -1, 0),
    }[rule]

    # The target: a distribution over returns, shifted by the bonus.
    values, probabilities = distributions(state.target, agent, after, taus["after"])
    q_after = (values * probabilities).sum(-1)
    if hasattr(agent, "cosines"):
        values, others = np.split(values, [agent.target_quantiles], axis=-1)
        probabilities, q_after = np.full(values.shape, 1 / agent.target_quantiles), others.mean(-1)
    choice = (q_values(state.params, after, "choice") if agent.double else q_after).argmax(1)
    if rule == "munchausen":
        policy = softmax(q_after / tau)[..., None]
        values = values - tau * np.log(policy)
        if hasattr(agent, "atoms"):  # a mixture: each action's atoms by themselves
            values, probabilities = values.reshape(size, -1), (policy * probabilities).reshape(size, -1)
        else:
            values, probabilities = (policy * values).sum(1), probabilities[:, 0]
    else:
        values, probabilities = values[i, choice], probabilities[i, choice]
    values = (reward + bonus)[:, None] + left[:, None] * values

    # The loss, and how it changes with what the online network says about the action taken.
    said, said_probabilities = (x[i, action] for x in distributions(state.params, agent, x, taus["loss"]))
    if hasattr(agent, "atoms"):
        target = np.array([projected(*one, agent) for one in zip(values, probabilities, strict=True)])
        losses, slope = -(target * np.log(said_probabilities)).sum(1), said_probabilities - target
    else:
        error = values[:, None, :] - said[..., None]
        weight = np.abs(taus["loss"][..., None] - (error < 0)) if hasattr(agent, "cosines") else np.ones(error.shape)
        huber = np.where(np.abs(error) <= 1, 0.5 * error**2, np.abs(error) - 0.5)
        losses = (weight * huber).mean(2).sum(1)
        slope = -(weight * np.clip(error, -1, 1)).mean(2).sum(1)[:, None]
    slopes = np.zeros((size, agent.num_actions, slope.shape[1]))
    slopes[i, action] = slope
    if agent.dueling:
        slopes -= slopes.mean(1, keepdims=True)
    return Update(losses, slopes, bonus, q_after.argmax(1) != choice)
