"""From study folders to the numbers and pictures of docs/results.md and docs/baselines.md.

`python -m evidence collect` and `collect-atari` sum studies up as CSV files under results/; `figures` makes every
picture and table from those files alone. `favourites` and `churn` measure what runs do not log, and `reference.py` is a
DQN to compare with that shares nothing with sail.
"""
