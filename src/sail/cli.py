"""The command `sail`. Standard output is for results, standard error for everything else."""

from __future__ import annotations

import argparse
import io
import os
import sys
from typing import Any, NoReturn

from sail import __version__, commands, draw_command, report_command, study_command
from sail.arguments import count, port, probability
from sail.errors import BadInputError, SailError, unknown_name
from sail.machine import check_cores

SHORT = {"rnd": "rnd.enabled", "n_step": "replay.n_step"}  # settings that have a short name too
EPILOG = "Exit codes: 0 done, 1 a fault of sail's or the machine's, 2 bad input, 130 interrupted."


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, with the nearest command or flag."""

    def error(self, message: str) -> NoReturn:
        raise BadInputError(f"{message[:1].upper()}{message[1:]}; see '{self.prog} --help'.")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse's, but what a command does not know is refused by that command, which knows what it takes."""
        found, unknown = super().parse_known_args(args, namespace)
        if flags := [word.partition("=")[0] for word in unknown if word.startswith("-")]:
            raise unknown_name(f"flag of {self.prog}", flags[0], self._option_string_actions)
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            raise unknown_name("command", f"{self.prog} {value}", [f"{self.prog} {one}" for one in action.choices])
        super()._check_value(action, value)


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


def run() -> None:
    """What the command is in a shell: `main`, and then the end of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no such letter is no reason to fail
    code = main()
    if code == 130:
        # Interrupted in mid-computation: jax's threads are not waited for, since they may not come to an end.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    parser = _parser()
    check_cores()
    overrides: dict[str, Any] = {}
    if arguments and arguments[0] in ("train", "bench"):
        arguments, overrides = split_settings(arguments)
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    return int(options.function(options, overrides))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="sail", description="Self-Imitation Advantage Learning.", epilog=EPILOG, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"sail {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)

    def command(name: str, help: str, function: Any) -> argparse.ArgumentParser:
        sub = subparsers.add_parser(
            name, help=help, description=help, epilog=EPILOG, allow_abbrev=False, add_help=False
        )
        sub.set_defaults(function=function)
        sub.add_argument("--json", action="store_true", help="print the result as one JSON object")
        sub.add_argument("--quiet", action="store_true", help="no progress")
        return sub

    train = command("train", "Train an agent in an environment, into a new run folder.", commands.train)
    bench = command(
        "bench", "Measure this machine: emulators, learner, both together, and which binds.", commands.bench
    )
    for sub in (train, bench):
        sub.add_argument("env", nargs="?", help="environment, such as kdt, deep-sea, atari:Pong, gym:CartPole-v1")
        sub.add_argument("--agent", default="sail-dqn", help="agent: an optional rule and a base (default: sail-dqn)")
        sub.add_argument("--preset", help="whose numbers: paper (Atari's default), dopamine or small")
        sub.add_argument("-h", "--help", action="store_true", help="show this help and every setting")
        sub.set_defaults(parser=sub)
    train.add_argument("--out", help="run folder to make (default: a new one under runs/)")
    resume = command("resume", "Go on with a run from its newest good checkpoint.", commands.resume)
    for sub in (train, resume):
        sub.add_argument("--tensorboard", action="store_true", help="write event files into the run folder as well")
        sub.add_argument("--wandb", action="store_true", help="send metrics to Weights & Biases as well")
    bench.add_argument("--out", help="JSON file to write as well")
    bench.add_argument("--seconds", type=count, default=20, help="how long to measure the whole loop (default: 20)")

    agents = command("agents", "List every agent, with its parts and the source of its numbers.", commands.agents)
    agents.add_argument("--env", default="atari:Pong", help="where: numbers depend on it (default: atari:Pong)")
    agents.add_argument("--preset", help="whose numbers: paper, dopamine or small")
    agents.add_argument("-h", "--help", action="help", help="show this help")
    evaluate = command("eval", "Play evaluation episodes with a run's agent.", commands.evaluate)
    evaluate.add_argument("--episodes", type=count, help="episodes for each seed (default: the run's setting)")
    evaluate.add_argument("--steps", type=count, help="whole episodes until this many steps for each seed, instead")
    evaluate.add_argument("--epsilon", type=probability, help="exploration (default: the run's setting)")
    play = command(
        "play", "Record an episode of a run's agent as a video, with its value and bonus under it.", commands.play
    )
    play.add_argument("--video", help="file to write: .mp4, .webp or .gif (default: one in the run's video folder)")
    play.add_argument("--seed", type=int, help="which seed of the run (default: its first)")
    play.add_argument("--epsilon", type=probability, help="exploration (default: the run's setting)")
    play.add_argument("--max-steps", type=count, help="stop recording after so many steps (default: none)")
    draw = command("draw", "Draw a run's learning curve and greedy route, or an environment's map.", draw_command.draw)
    draw.add_argument("--out", help="image to write (PNG, SVG or PDF)")
    study_command.add_parser(subparsers, _Parser, EPILOG)
    report = command("report", "Make a page, tables and figures of run folders or studies.", report_command.report)
    report.add_argument("paths", nargs="+", help="run folders, study folders, or folders of them")
    report.add_argument("--out", required=True, help="page to write, such as report.html")
    report.add_argument(
        "--format", help="html (default), md, csv, png, svg; several with commas: the others go beside it"
    )
    report.add_argument("--baseline", help="agent that the others are compared with (default: the study's)")
    report.add_argument("--title", help="title of the page")
    report.add_argument("-h", "--help", action="help", help="show this help")
    watch = command("watch", "Show the page of run folders or studies live, while they train.", report_command.watch)
    watch.add_argument("paths", nargs="+", help="run folders, study folders, or folders of them")
    watch.add_argument("--port", type=port, default=8765, help="port on this machine (default: 8765; 0 for any)")
    watch.add_argument("--open", action="store_true", help="open it in a browser")
    watch.add_argument("-h", "--help", action="help", help="show this help")
    for sub, what in ((resume, "run"), (evaluate, "run"), (play, "run"), (draw, "run_or_env")):
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
        if not token.startswith("--") or name in ("--json", "--quiet", "--help", "--tensorboard", "--wandb"):
            rest.append(token)
        elif name in ("--agent", "--out", "--seconds", "--preset"):
            rest += [token] if has_value or not tokens else [token, tokens.pop(0)]
        else:
            name = name[2:].replace("-", "_")
            if not has_value:
                takes = tokens and not tokens[0].startswith("--")
                if name == "rnd":  # a switch: what comes after it is most likely the environment
                    takes = takes and tokens[0].lower() in ("true", "false")
                value = tokens.pop(0) if takes else "true"
            _put(overrides, SHORT.get(name, name).split("."), value)
    if "frames" in overrides:
        if "steps" in overrides:
            raise BadInputError("Give --steps or --frames, not both: a step is four frames.")
        overrides["steps"] = _steps(overrides.pop("frames"), [token for token in rest if token.startswith("atari:")])
    return rest, overrides


def _steps(frames: Any, atari: list[str]) -> int:
    """Emulator frames as agent steps."""
    from sail.envs.atari_settings import FRAME_SKIP

    if not atari:
        raise BadInputError("--frames counts emulator frames, which only Atari games have: use --steps.")
    digits = str(frames).replace("_", "")
    if not digits.isdecimal():
        raise BadInputError(f"--frames must be a whole number, not '{frames}'.")
    return -(-int(digits) // FRAME_SKIP)


def _put(tree: dict[str, Any], path: list[str], value: str) -> None:
    *sections, leaf = path
    for section in sections:
        tree = tree.setdefault(section, {})
        if not isinstance(tree, dict):
            raise BadInputError(f"'{section}' is set twice, as a value and as a section.")
    tree[leaf] = None if value.lower() in ("none", "null") else value  # the rest is for the settings to read


if __name__ == "__main__":
    run()
