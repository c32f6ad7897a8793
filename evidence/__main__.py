"""The commands: `collect` and `figures`."""

from __future__ import annotations

import argparse
from pathlib import Path

from evidence import figures, gridworlds, tables


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence", description="The numbers and pictures of docs/results.md."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    collect = commands.add_parser("collect", help="sum a study of kdt or deep-sea up as a CSV file")
    collect.add_argument("study", type=Path, help="a study folder; cells that are not done are left out")
    collect.add_argument("to", type=Path, help="the file, such as results/kdt/stale_returns.csv")
    collect.set_defaults(run=lambda options: gridworlds.collect(options.study, options.to))
    draw = commands.add_parser("figures", help="draw every figure from the committed CSV files")
    draw.add_argument("--results", type=Path, default=tables.RESULTS, help="where those are (default: results/)")
    draw.add_argument("--to", type=Path, default=tables.ROOT / "docs" / "images" / "results", help="where pictures go")
    draw.set_defaults(run=lambda options: print(*figures.draw_all(options.results, options.to), sep="\n"))
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
