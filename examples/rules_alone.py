"""The paper's equation without the rest of sail: numpy in, numpy out. For those who have an agent already.

python examples/rules_alone.py
"""

from __future__ import annotations

import numpy as np

from sail import rules


def main() -> None:
    """Three transitions from one state, and what each rule adds to their rewards."""
    q_target = np.array([[1.0, 0.4, 0.7]] * 3, np.float32)  # target action-values at s, [batch, actions]
    action = np.array([1, 1, 2])  # what was done
    observed_return = np.array([1.5, 0.0, rules.UNKNOWN_RETURN], np.float32)  # lucky, stale, episode still runs

    print("return G     " + "".join(f"{g:>9.2f}" for g in observed_return))
    for name, rule in rules.RULES.items():
        bonus = rules.bonus(name, q_target, action, observed_return, alpha=0.9, clip=rule.default_clip)
        print(f"{name:<13}" + "".join(f"{b:>9.3f}" for b in bonus))
    # Your target is then: reward + bonus + discount * rules.bootstrap("sail", q_target_next)


if __name__ == "__main__":
    main()
