"""The command `sail`. Standard output is for results, standard error for everything else."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from sail import __version__
from sail.errors import BadInputError, SailError

EPILOG = "Exit codes: 0 done, 1 a fault of sail's or the machine's, 2 bad input, 130 interrupted."


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInputError(f"{message[:1].upper()}{message[1:]}; see '{self.prog} --help'.")


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        return _run(arguments)
    except SailError as error:
        print(f"sail: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("sail: interrupted.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the exit does not complain again
        return 1
    except OSError as error:
        print(f"sail: {error.strerror or error}{f': {error.filename}' if error.filename else ''}.", file=sys.stderr)
        return 1


def _run(arguments: list[str]) -> int:
    parser = _parser()
    overrides: dict[str, Any] = {}
    if arguments and arguments[0] == "train":
        arguments, overrides = split_settings(arguments)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    return int(options.function(options, overrides))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="sail", description="Self-Imitation Advantage Learning.", epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"sail {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def command(name: str, help: str, function: Any) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=help, description=help, epilog=EPILOG, allow_abbrev=False, add_help=False)
        sub.set_defaults(function=function)
        sub.add_argument("--json", action="store_true", help="print the result as one JSON object")
        sub.add_argument("--quiet", action="store_true", help="no progress")
        return sub

    train = command("train", "Train an agent in an environment, into a new run folder.", _train)
    train.add_argument("env", nargs="?", help="environment, such as kdt, apple-kdt, deep-sea")
    train.add_argument("--agent", default="sail-dqn", help="agent: an optional rule and a base (default: sail-dqn)")
    train.add_argument("--out", help="run folder to make (default: a new one under runs/)")
    train.add_argument("-h", "--help", action="store_true", help="show this help and every setting")
    train.set_defaults(parser=train)

    resume = command("resume", "Go on with a run from its newest good checkpoint.", _resume)
    evaluate = command("eval", "Play evaluation episodes with a run's agent.", _eval)
    evaluate.add_argument("--episodes", type=_count, help="episodes for each seed (default: the run's setting)")
    evaluate.add_argument("--epsilon", type=_probability, help="exploration (default: the run's setting)")
    draw = command("draw", "Draw a run's learning curve and greedy route, or an environment's map.", _draw)
    draw.add_argument("--out", help="image to write (PNG, SVG or PDF)")
    for sub, what in ((resume, "run"), (evaluate, "run"), (draw, "run_or_env")):
        sub.add_argument(what, help="run folder" if what == "run" else "run folder, or environment name")
        sub.add_argument("-h", "--help", action="help", help="show this help")
    return parser


def split_settings(arguments: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Takes the settings (`--rule.alpha 0.5`) out of the arguments, as a nested mapping like config.yaml's."""
    rest: list[str] = []
    overrides: dict[str, Any] = {}
    tokens = list(arguments)
    while tokens:
        token = tokens.pop(0)
        name, has_value, value = token.partition("=")
        if not token.startswith("--") or name in ("--json", "--quiet", "--help"):
            rest.append(token)
        elif name in ("--agent", "--out"):
            rest += [token] if has_value or not tokens else [token, tokens.pop(0)]
        else:
            if not has_value:
                value = tokens.pop(0) if tokens and not tokens[0].startswith("--") else "true"
            _put(overrides, name[2:].replace("-", "_").split("."), value)
    return rest, overrides


def _put(tree: dict[str, Any], path: list[str], value: str) -> None:
    if path == ["frames"]:
        raise BadInputError("--frames counts emulator frames, which only Atari games have: use --steps.")
    *sections, leaf = path
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise BadInputError(f"'{section}' is set twice, as a value and as a section.")
    tree[leaf] = None if value.lower() in ("none", "null") else value  # the rest is for the settings to read


def _train(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    from sail.config import make_config

    if options.help:
        from sail.settings_help import settings_help

        options.parser.print_help()
        print("\nSettings, with the values they have now (any of them can be a flag):")
        print(settings_help(options.env or "kdt", options.agent))
        return 0
    if options.env is None:
        raise BadInputError("Say which environment to train in, such as 'sail train kdt'.")
    config = make_config(options.env, options.agent, overrides)
    from sail.training.run_folder import check_new

    if options.out is not None:
        check_new(options.out)  # answered before jax is imported
    from sail.console import ConsoleReporter
    from sail.training.api import train_config

    with ConsoleReporter(config, options.quiet) as reporter:
        run = train_config(config, out=options.out, reporter=reporter)
    return _close(run, options.json)


def _resume(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    from sail.training.run_folder import RunFolder

    run = RunFolder(options.run)
    from sail.console import ConsoleReporter
    from sail.training.api import resume

    with ConsoleReporter(run.config, options.quiet) as reporter:
        resume(run, reporter=reporter)
    return _close(run, options.json)


def _close(run: Any, as_json: bool) -> int:
    from sail.console import print_summary

    summary = run.summary()
    pictures = [path for path in [_picture(run.path, run.path / "summary.png")] if path is not None]
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary, pictures)
        if not pictures:
            print("  look   pip install 'sail-rl[report]' for a picture")
    return 0


def _eval(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    from sail.training.run_folder import RunFolder

    run = RunFolder(options.run)  # answered before jax is imported
    from sail.training.api import load

    player = load(run)
    for note in player.notes:
        print(note, file=sys.stderr)
    result = player.evaluate(options.episodes, options.epsilon)
    if options.json:
        print(json.dumps(result))
        return 0
    print(
        f"{run.config.agent_name} on {run.config.env.name} at step {result['step']:,}, epsilon {result['epsilon']:g}:"
    )
    print(f"  return  {result['mean_return']:.3f} ± {result['std_return']:.3f} (mean and standard deviation)")
    print(f"  length  {result['mean_length']:.1f} steps")
    print(f"  success {result['success_rate']:.0%} of {result['episodes']} episodes, {result['seeds']} seed(s)")
    return 0


def _draw(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    from sail.analysis.drawing import grid_text
    from sail.envs import SETTINGS
    from sail.envs.maps import env_map

    name = options.run_or_env
    if name in SETTINGS and not Path(name).is_dir():
        grid, cells, run = env_map(SETTINGS[name](name=name)), [], None
        if grid is None:
            raise BadInputError(f"There is no map of '{name}' to draw.")
    else:
        from sail.training.run_folder import RunFolder

        run = RunFolder(name).path
        route_file = run / "route.json"
        route = json.loads(route_file.read_text()) if route_file.is_file() else {"grid": [], "cells": []}
        grid, cells = route["grid"], route["cells"]
    picture = None
    if options.out:
        picture = _picture(run, Path(options.out), grid)
        if picture is None:
            raise BadInputError("Pictures need matplotlib: pip install 'sail-rl[report]'.")
    if options.json:
        print(json.dumps({"grid": grid, "cells": cells, "picture": str(picture) if picture else None}))
        return 0
    print(grid_text(grid, cells))
    if picture:
        print(f"Wrote {picture}.")
    return 0


def _picture(run: Path | None, to: Path, grid: list[str] | None = None) -> Path | None:
    """The picture of a run, or of a grid alone; None where matplotlib is not installed."""
    try:
        from sail.analysis import pictures
    except ImportError:
        return None
    try:
        return pictures.save_summary(run, to) if run is not None else pictures.save_grid(grid or [], to)
    except ValueError as error:  # an image format that matplotlib does not know
        raise BadInputError(f"{to} cannot be written: {error}") from None


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not '{text}'")
    return int(text)


def _probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to 1, not '{text}'")
    return value


if __name__ == "__main__":
    sys.exit(main())
