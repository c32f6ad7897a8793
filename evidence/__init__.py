"""From study folders to the numbers and pictures of docs/results.md.

`python -m evidence collect STUDY CSV` sums a study up; `python -m evidence figures` draws everything from those files.
"""
