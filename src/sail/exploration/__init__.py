"""How an agent tries what it does not yet know to be good."""

from sail.exploration.epsilon import epsilon_at, epsilon_greedy
from sail.exploration.rnd import RND, Curiosity, Moments

__all__ = ["RND", "Curiosity", "Moments", "epsilon_at", "epsilon_greedy"]
