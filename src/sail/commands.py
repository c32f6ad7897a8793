"""What each command does. Modules are imported where they are needed, so that a wrong name is answered before jax."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sail.errors import BadInputError


def train(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Trains, into a new run folder."""
    from sail.config import make_config

    if options.help:
        return _help(options, "kdt")
    if options.env is None:
        raise BadInputError("Say which environment to train in, such as 'sail train kdt'.")
    config = make_config(options.env, options.agent, overrides, options.preset)
    from sail.training.run_folder import check_new

    if options.out is not None:
        check_new(options.out)  # answered before jax is imported
    writers = _writers(options)
    from sail.console import ConsoleReporter
    from sail.training.api import train_config

    with ConsoleReporter(config, options.quiet) as reporter:
        run = train_config(config, out=options.out, reporter=writers(reporter))
    return _close(run, options.json)


def _writers(options: argparse.Namespace) -> Callable[[Any], Any]:
    """What adds the writers that were asked for to a reporter; a wrong one is answered before jax is imported."""
    from sail.integrations.writers import WithWriters, writer_names

    names = writer_names([name for name in ("tensorboard", "wandb") if getattr(options, name)])
    return lambda reporter: WithWriters(reporter, names) if names else reporter


def _help(options: argparse.Namespace, env: str) -> int:
    from sail.settings_help import settings_help

    options.parser.print_help()
    print("\nSettings, with the values they have now (any of them can be a flag):")
    print(settings_help(options.env or env, options.agent, options.preset))
    return 0


def bench(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Measures this machine."""
    from sail.config import make_config

    if options.help:
        return _help(options, "atari:Pong")
    config = make_config(options.env or "atari:Pong", options.agent, overrides, options.preset)
    from sail.console import print_bench
    from sail.training.api import measure

    result = measure(config, options.seconds, options.out)
    if options.json:
        print(json.dumps(result))
    else:
        print_bench(result)
    return 0


def agents(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Lists every agent."""
    from sail.agent_list import agent_list

    rows = agent_list(options.env, options.preset)
    if options.json:
        print(json.dumps(rows))
        return 0
    from sail.console import print_agents

    print_agents(rows, options.env)
    return 0


def play(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Records an episode as a video."""
    from sail.training.run_folder import RunFolder

    run = RunFolder(options.run)
    from sail.analysis.video import check_video, save_video

    if options.seed is not None:
        run.check_seed(options.seed)  # answered before jax is imported, as a wrong video is
    if options.video is not None:
        check_video(options.video)
    from sail.training.api import load
    from sail.training.recording import record

    player = load(run, options.seed)
    for note in player.notes:
        print(note, file=sys.stderr)
    if options.video is None:
        folder = run.path / "video"  # where `sail report` finds it
        folder.mkdir(exist_ok=True)
        options.video = str(check_video(folder / f"seed{player.seed}-step{player.step}.mp4"))
    recording = record(player, options.epsilon, options.max_steps)
    written = save_video(recording, options.video)
    if options.json:
        score = float(sum(recording.rewards))
        print(json.dumps({"video": str(written), "steps": len(recording.rewards), "score": score}))
        return 0
    if written.suffix != Path(options.video).suffix:
        print("There is no ffmpeg for mp4 (pip install 'sail-rl[video]'), so this is a WebP.", file=sys.stderr)
    print(f"Wrote {written}: {len(recording.rewards):,} steps, score {sum(recording.rewards):g}.")
    return 0


def resume(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Goes on with a run."""
    from sail.training.run_folder import RunFolder

    run = RunFolder(options.run)
    writers = _writers(options)
    from sail.console import ConsoleReporter
    from sail.training.api import resume

    with ConsoleReporter(run.config, options.quiet) as reporter:
        resume(run, reporter=writers(reporter))
    return _close(run, options.json)


def _close(run: Any, as_json: bool) -> int:
    from sail.console import print_summary
    from sail.draw_command import Subject, save_picture

    summary = run.summary()
    picture = save_picture(Subject(run.path), run.path / "summary.png")
    if as_json:
        print(json.dumps(summary))
    else:
        print_summary(summary, [picture] if picture else [])
        if picture is None:
            print("  look   pip install 'sail-rl[report]' for a picture")
    return 0


def evaluate(options: argparse.Namespace, overrides: dict[str, Any]) -> int:
    """Plays evaluation episodes with a run's agent."""
    from sail.training.run_folder import RunFolder

    run = RunFolder(options.run)  # answered before jax is imported
    from sail.training.api import load

    player = load(run)
    for note in player.notes:
        print(note, file=sys.stderr)
    result = player.evaluate(options.episodes, options.epsilon, options.steps)
    if options.json:
        print(json.dumps(result))
        return 0
    print(
        f"{run.config.agent_name} on {run.config.env.name} at step {result['step']:,}, epsilon {result['epsilon']:g}:"
    )
    print(f"  return  {result['mean_return']:.3f} ± {result['std_return']:.3f} (mean and standard deviation)")
    print(f"  length  {result['mean_length']:.1f} steps")
    success = "" if result["success_rate"] is None else f"{result['success_rate']:.0%} success in "
    print(f"  played  {success}{result['episodes']} episodes, {result['seeds']} seed(s)")
    return 0
