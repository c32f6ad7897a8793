"""The commands, from study folders to files, and from files to pictures and the page."""

from __future__ import annotations

import argparse
from pathlib import Path

from evidence import (
    atari,
    between,
    churn,
    dopamine,
    favourites,
    figures,
    gridworlds,
    page,
    remaining,
    report,
    roms,
    shift,
    tables,
)
from sail.arguments import count
from sail.errors import SailError


def _figures(options: argparse.Namespace) -> None:
    print(*figures.draw_all(options.results, options.to), sep="\n")
    page.write(options.docs, options.results)
    report.write(options.docs / "results.html", options.docs / "results.md")


def main() -> None:
    """Does what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m evidence", description="The numbers and pictures of docs/results.md and docs/baselines.md."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    collect = commands.add_parser("collect", help="sum a study of kdt or deep-sea up as a CSV file")
    collect.add_argument("study", type=Path, help="a study folder; cells that are not done are left out")
    collect.add_argument("to", type=Path, help="the file, such as results/kdt/stale_returns.csv")
    collect.set_defaults(run=lambda options: print(gridworlds.collect(options.study, options.to)))
    games = commands.add_parser("collect-atari", help="a CSV file for each Atari run of a study")
    games.add_argument("study", type=Path, help="a study folder, or any folder of run folders")
    games.add_argument("--to", type=Path, default=tables.RESULTS / "atari")
    games.set_defaults(run=lambda options: print(*atari.collect(options.study, options.to), sep="\n"))
    favourite = commands.add_parser("favourites", help="measure how often favourite actions change while nothing pays")
    favourite.add_argument("to", type=Path, help="the file, such as results/kdt/favourites.csv")
    favourite.set_defaults(run=lambda options: print(favourites.collect(options.to)))
    turns = commands.add_parser("churn", help="measure how soon favourite actions change on Atari games")
    turns.add_argument("to", type=Path, help="the file, such as results/atari/churn.csv")
    turns.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="a run's folder, with a checkpoint")
    turns.set_defaults(run=lambda options: print(churn.collect(options.runs, options.to)))
    files = commands.add_parser(
        "roms", help="compare atari-py's files of the games, which the paper played, with ale-py's"
    )
    files.add_argument("folder", type=Path, help="atari-py's files, bank_heist.bin and so on")
    files.add_argument("to", type=Path, help="the file to write, such as results/atari/roms.csv")
    files.add_argument("--picture", type=Path, default=tables.ROOT / "docs" / "images" / "roms.png")
    files.set_defaults(run=lambda options: print(roms.collect(options.folder, options.to, options.picture)))
    rest = commands.add_parser("remaining", help="a study file with those games and agents whose CSV files are missing")
    rest.add_argument("study", help="such as evidence/atari")
    rest.add_argument("to", type=Path, help="the file to write")
    rest.add_argument("--results", type=Path, default=tables.RESULTS / "atari")
    rest.set_defaults(run=lambda options: print(remaining.write(options.study, options.to, options.results)))
    ablation = commands.add_parser("between", help="run Advantage Learning with returns that count above V alone")
    ablation.add_argument("to", type=Path, help="the CSV file, such as results/between.csv")
    ablation.add_argument("--out", type=Path, default=Path("studies") / "between", help="folder of the runs")
    ablation.set_defaults(run=lambda options: print(between.collect(options.to, options.out)))
    spell = commands.add_parser("shift", help="run what is missing of a study of games for so many minutes")
    spell.add_argument("study", help="such as evidence/atari")
    spell.add_argument("--minutes", type=float, required=True, help="when to end, whatever still runs")
    spell.add_argument(
        "--workers", type=count, default=1, help="runs that play at a time, beside one that gets ready (default: 1)"
    )
    spell.add_argument("--agents", nargs="+", default=[], help="only these")
    spell.add_argument("--results", type=Path, default=tables.RESULTS / "atari", help="where the CSV files are and go")
    spell.add_argument("--out", type=Path, default=Path("studies") / "shift", help="folder of the runs")
    spell.set_defaults(run=lambda o: print(shift.work(o.study, o.minutes, o.workers, o.results, o.out, o.agents)))
    points = commands.add_parser("published", help="an excerpt of Dopamine's curves, to compare with")
    points.add_argument("folder", type=Path, help="Dopamine's files, pong.json and so on")
    points.add_argument("--to", type=Path, default=tables.RESULTS / "atari" / "published.csv")
    points.set_defaults(run=lambda options: dopamine.excerpt(options.folder, options.to))
    draw = commands.add_parser("figures", help="draw every figure, and bring the pages up to date, from the CSV files")
    draw.add_argument("--results", type=Path, default=tables.RESULTS, help="where those are (default: results/)")
    draw.add_argument("--to", type=Path, default=tables.ROOT / "docs" / "images" / "results", help="where pictures go")
    draw.add_argument("--docs", type=Path, default=tables.ROOT / "docs", help="where the pages are (default: docs/)")
    draw.set_defaults(run=_figures)
    options = parser.parse_args()
    try:
        options.run(options)
    except (SailError, OSError) as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
