"""The sections of a run's settings, each with the sentence that `sail train --help` shows. No jax here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from sail import rules
from sail.envs.settings import Float, Int, Probability, settings
from sail.errors import BadInputError, unknown_name

Count = Annotated[Int, Field(ge=1, le=2**31 - 1)]
Positive = Annotated[Float, Field(gt=0, allow_inf_nan=False)]
Finite = Annotated[Float, Field(allow_inf_nan=False)]
Quantiles = Annotated[Int, Field(ge=1, le=4096)]
DecayRate = Annotated[Float, Field(ge=0, lt=1)]


def _split(value: Any) -> Any:
    """A flag's list, such as 64,64."""
    return [part for part in value.split(",") if part] if isinstance(value, str) else value


@settings
class AgentSettings:
    """The base agent."""

    base: str = "dqn"
    """The base agent (`sail agents` lists them); with the rule's name it makes the agent's, as in sail-dqn."""
    network: Literal["auto", "mlp", "nature", "dopamine"] = "auto"
    """Dense layers, or three convolutions before them, padded as in Nature (none) or Dopamine (same size); auto: nature
    for images of at least 36 x 36, else mlp."""
    hidden: Annotated[tuple[Count, ...], BeforeValidator(_split), Field(min_length=1)] = (64, 64)
    """Widths of the hidden layers; those after the convolutions, where there are any."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What convolutions compute in; auto: bfloat16 on an accelerator. Parameters are always float32."""
    loss: Literal["huber", "squared"] = "huber"
    """Loss of the temporal-difference error."""
    discount: DecayRate = 0.99
    """gamma, for bootstrapping and for observed returns alike."""
    double: bool = False
    """Choose the next action with the online network (van Hasselt et al., 2016)."""
    dueling: bool = False
    """Split the head into a value and advantages (Wang et al., 2016)."""
    noisy: bool = False
    """Explore with noise on the head's parameters instead of with epsilon, which must be 0 (Fortunato et al., 2018)."""
    noise: Positive = 0.5
    """Standard deviation that this noise begins with, times 1 / sqrt(inputs); theirs is 0.5."""
    atoms: Annotated[Int, Field(ge=2, le=4096)] = 51
    """Atoms of a categorical agent."""
    vmin: Finite = -10.0
    """The lowest of them: no return is told from a lower one."""
    vmax: Finite = 10.0
    """The highest."""
    quantiles: Quantiles = 64
    """Quantiles of an implicit quantile agent in its loss: the paper's N."""
    target_quantiles: Quantiles = 64
    """Quantiles that they are regressed to: N'."""
    action_quantiles: Quantiles = 32
    """Quantiles whose mean it acts on, and makes the bonus of: K."""
    cosines: Quantiles = 64
    """Frequencies that a quantile's fraction is embedded with."""
    kappa: Positive = 1.0
    """Where its Huber loss becomes linear."""

    def __post_init__(self) -> None:
        if self.vmin >= self.vmax:
            raise BadInputError(f"agent.vmin must be below agent.vmax, not {self.vmin:g} and {self.vmax:g}.")


@settings
class RuleSettings:
    """What is added to the reward: see sail/rules.py."""

    name: str = "sail"
    """bellman, al, sail, strsil or munchausen."""
    alpha: DecayRate = 0.9
    """Weight of the bonus."""
    clip: Annotated[float | None, Field(ge=0)] = 1.0
    """Bound of the bonus before alpha; none for no bound. Advantage Learning's default is none."""
    tau: Positive = 0.03
    """Temperature of the munchausen rule; the others do not use it."""

    def __post_init__(self) -> None:
        if self.name not in rules.RULES and self.name not in rules.known():
            raise unknown_name("rule", self.name, rules.known())


@settings
class ReplaySettings:
    """The replay ring."""

    capacity: Count = 40_000
    """Observations kept, over all environments of one seed."""
    n_step: Annotated[Int, Field(ge=1, le=100)] = 1
    """Rewards summed before bootstrapping; the bonus belongs to the first."""
    finished_only: bool = False
    """Sample only episodes that have ended, as the authors' code does; Alg. 1 samples them all."""
    time_limit_is_terminal: bool = False
    """Treat a cut-off episode as a death, as Dopamine does, instead of bootstrapping from its last observation."""
    prioritised: bool = False
    """Draw transitions in proportion to their last loss (Schaul et al., 2016); otherwise all alike."""
    priority_exponent: Probability = 0.5
    """Power of the loss that is the priority."""
    importance_exponent: Probability = 0.5
    """Power of the weights that undo the bias of that; 1 undoes all of it."""
    frames: Literal["auto", "device", "host"] = "auto"
    """Where the observations of outside environments are kept; auto: on the device if they fit."""


@settings
class RNDSettings:
    """Random network distillation: a reward for what is new (docs/agents.md). `--rnd` turns it on."""

    enabled: bool = False
    scale: Annotated[Float, Field(ge=0, allow_inf_nan=False)] = 0.01
    """The bonus is this times the prediction error, standardised over what was seen."""
    returns: Literal["extrinsic", "total"] = "extrinsic"
    """Which rewards the return G sums, that SAIL imitates: the environment's alone, or this bonus too."""
    features: Count | None = None
    """What the two networks say about an observation; none for 512 numbers of an image and 64 of a vector."""
    learning_rate: Positive = 1e-4
    """Of the predictor's Adam."""
    period: Count = 1
    """Updates of the agent for one step of the predictor, which learns from the frames of one of their minibatches."""


@settings
class AdamSettings:
    """Adam; Dopamine's numbers for Atari are learning_rate 6.25e-5 and eps 1.5e-4."""

    name: Literal["adam"] = "adam"
    learning_rate: Positive = 3e-4
    b1: DecayRate = 0.9
    b2: DecayRate = 0.999
    eps: Positive = 1e-8


@settings
class RMSPropSettings:
    """RMSProp in TensorFlow's form, with the paper's numbers."""

    name: Literal["rmsprop"] = "rmsprop"
    learning_rate: Positive = 2.5e-4
    decay: DecayRate = 0.95
    eps: Positive = 1e-5
    """Added inside the square root."""
    centered: bool = True
    """Divide by the standard deviation of the gradient instead of its root mean square."""
    initial_scale: Annotated[Float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Where the second moment starts."""


OptimiserSettings = AdamSettings | RMSPropSettings
OPTIMISERS: dict[str, Any] = {"adam": AdamSettings, "rmsprop": RMSPropSettings}


@settings
class ExplorationSettings:
    """Epsilon-greedy exploration."""

    start: Probability = 1.0
    """Epsilon until learning starts."""
    end: Probability = 0.1
    """Epsilon at the end of the decay, and from then on."""
    decay_steps: Count = 250_000
    """Steps from start to end, linearly."""


@settings
class LearningSettings:
    """How often and on what the network is updated. All periods are in agent steps."""

    num_envs: Annotated[Int, Field(ge=1, le=65_536)] = 8
    """Environments stepped together, for each seed."""
    num_pools: Annotated[Int, Field(ge=1, le=65_536)] | None = None
    """Pools of outside environments that take turns, so that some play while the device thinks about the others; none
    for 3 of Atari games (4, 2 or 1 where num_envs does not divide by it), and 1 otherwise."""
    batch_size: Annotated[Int, Field(ge=1, le=65_536)] = 32
    """Transitions in one update."""
    update_period: Annotated[Int, Field(ge=1, le=65_536)] = 4
    """Steps for each update."""
    target_period: Count = 400
    """Steps between two copies of the network to the target network. A number that divides evaluation.period, or has
    large divisors in common with it, allows large blocks (max_block), which are faster."""
    starts: Count = 2_000
    """Steps before the first update."""
    max_block: Count = 256
    """Most steps taken at once between updates; fewer where the periods do not divide by it."""
    hold: Count | None = 1
    """Outside environments: steps that each takes with a network before it gets a newer one. None: 64, or fewer of more
    than 120 environments, so that all together take 7,680 (docs/atari.md). A run of fewer steps than all together take
    acts with its first network."""


@settings
class EvaluationSettings:
    """Evaluation phases: greedy but for an epsilon of their own, and nothing is learned from them."""

    period: Count = 25_000
    """Steps between two phases; each also writes a line of metrics."""
    episodes: Annotated[Int, Field(ge=0, le=100_000)] = 8
    """Episodes in a phase; 0 for none: then the training episodes tell how it goes."""
    steps: Count | None = None
    """What `sail eval` plays: whole episodes until this many steps; none for the number of episodes."""
    epsilon: Probability = 0.0
    """Epsilon while evaluating; the paper's for Atari is 0.001."""


@settings
class CheckpointSettings:
    """Checkpoints. Where environments are compiled in they hold everything: a resumed run ends in the same bits."""

    seconds: Annotated[Float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds between two checkpoints, at the least; 0 for one after every evaluation phase."""
    keep: Annotated[Int, Field(ge=1, le=1000)] = 2
    """Newest checkpoints kept."""
    replay: bool = False
    """Keep the replay ring of outside environments too (7 GB for a million Atari frames), instead of refilling it."""
