"""`python -m sail` is the command `sail`."""

from sail.cli import run

run()
