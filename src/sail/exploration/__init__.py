"""How an agent tries what it does not yet know to be good."""

from sail.exploration.epsilon import epsilon_at, epsilon_greedy

__all__ = ["epsilon_at", "epsilon_greedy"]
