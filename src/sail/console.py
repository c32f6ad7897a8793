"""What a person sees: a progress bar on a terminal, plain lines elsewhere, and a closing summary."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from sail.analysis.drawing import grid_text
from sail.config import Config

PLAIN_LINE_SECONDS = 5.0


class ConsoleReporter:
    """Tells a person how training goes, on standard error, so that standard output is free for results."""

    def __init__(self, config: Config, quiet: bool = False) -> None:
        self.config = config
        self.console = Console(stderr=True, quiet=quiet, highlight=False)
        self._last_line = time.monotonic()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[news]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._progress.add_task(f"{config.agent_name} on {config.env.name}", total=config.steps, news="")

    def __enter__(self) -> ConsoleReporter:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def begun(self, run: Any) -> None:
        """Nothing: the bar says it."""

    def ended(self) -> None:
        """Nothing: the summary says it."""

    def advanced(self, step: int) -> None:
        """Moves the bar."""
        self._progress.update(self._task, completed=step)

    def phase(self, rows: list[dict[str, Any]]) -> None:
        """Shows the newest evaluation; without a terminal, a line every few seconds."""
        news = _news(rows)
        self._progress.update(self._task, news=news)
        if not self.console.is_terminal and time.monotonic() - self._last_line >= PLAIN_LINE_SECONDS:
            self._last_line = time.monotonic()
            self.console.print(f"step {rows[0]['step']:,} of {self.config.steps:,}: {news}", soft_wrap=True)

    def note(self, sentence: str) -> None:
        """Prints a sentence above the bar."""
        self.console.print(sentence, soft_wrap=True)


def _news(rows: list[dict[str, Any]]) -> str:
    returns = [value for row in rows if (value := row.get("eval_return", row.get("train_return"))) is not None]
    if not returns:
        return "no episode has ended yet"
    news = f"return {sum(returns) / len(returns):.2f}"
    if len(rows) == 1 or rows[0].get("eval_success") is None:
        return news
    return f"{news}, {sum(row['eval_success'] == 1.0 for row in rows)} of {len(rows)} seeds solved"


def print_summary(summary: dict[str, Any], pictures: list[Path]) -> None:
    """Did it learn, how long did it take, where are the files."""
    console = Console(highlight=False)
    run = Path(summary["run"])
    route_file = run / "route.json"
    if route_file.is_file():
        route = json.loads(route_file.read_text())
        console.print(grid_text(route["grid"], route["cells"]), markup=False)
        console.print()
    console.print(f"[bold]{summary['agent']} on {summary['env']}: {verdict(summary)}", soft_wrap=True)
    rate = f" at {summary['steps_per_second']:,} steps/s" if summary["steps_per_second"] else ""
    each = f"{summary['steps']:,} steps" + (f" for each of {summary['seeds']} seeds" if summary["seeds"] > 1 else "")
    console.print(f"  time   {each} in {summary['seconds']:.1f} s{rate}, compilation included", soft_wrap=True)
    console.print(f"  files  {run}", soft_wrap=True)
    for picture in pictures:
        console.print(f"  look   {picture}", soft_wrap=True)


def verdict(summary: dict[str, Any]) -> str:
    """The answer to 'did it learn?' in one sentence."""
    if summary["mean_return"] is None:
        return "no episode has ended, so there is nothing to tell yet."
    solved, seeds, score = summary["solved_seeds"], summary["seeds"], f"mean return {summary['mean_return']:.2f}"
    if solved is None:  # nobody has said what success is
        first = summary["first_mean_return"]
        before = "" if first is None else f", after {first:.2f} in the first phase"
        return f"{score} in the last phase's {summary['returns_are']} episodes{before}."
    when = f"first solved by step {summary['first_solved_step']:,}" if summary["first_solved_step"] else ""
    if seeds > 1:
        return f"{solved} of {seeds} seeds learned it ({score}{', ' + when if when else ''})."
    if solved:
        how = "reaches the goal every time" if ":" not in summary["env"] else "has the return that counts as solved"
        return f"learned. The greedy policy {how} ({score}, {when})."
    if when:
        return f"not learned for good: {when}, but not at the end ({score})."
    return f"not learned: the greedy policy does not reach the goal ({score}). More steps or another seed may."


def print_bench(result: dict[str, Any]) -> None:
    """What `sail bench` found."""
    console = Console(highlight=False)
    unit = "frames/s" if result["frames_a_step"] > 1 else "steps/s"
    seeds = f", {result['seeds']} seeds together" if result["seeds"] > 1 else ""
    console.print(f"[bold]{result['agent']} on {result['env']}[/bold], {result['device']}{seeds}", soft_wrap=True)
    together = f"{result['achieved']:>9,} {unit}, {result['updates_per_second']:,} updates/s"
    if result["emulator_limit"] is None:  # the environment is compiled in
        console.print(f"  training         {together}", soft_wrap=True)
    else:
        console.print(f"  emulators alone  {result['emulator_limit']:>9,} {unit}", soft_wrap=True)
        console.print(f"  learner alone    {result['learner_limit']:>9,} {unit}", soft_wrap=True)
        console.print(
            f"  both together    {together}: {result['share_of_emulators']:.0%} of the emulators' limit; "
            f"what binds: {result['binds']}",
            soft_wrap=True,
        )
        a_round = result["round_ms"]
        console.print(
            f"  a round          {a_round['whole']:>9,} ms: {a_round['waits_for_games']} waiting for games, "
            f"{a_round['waits_for_actions']} for actions, {a_round['waits_for_updates']} for updates to be handed over",
            soft_wrap=True,
        )
    beside = result["device_beside_ring_gib"]
    emulators = f", emulators {result['emulators_gib']} GiB" if result["emulators_gib"] else ""
    device = "" if beside is None else f", {beside} GiB beside it on the device"
    console.print(
        f"  memory           ring {result['ring_gib']} GiB{device}, process {result['process_gib']} GiB{emulators}",
        soft_wrap=True,
    )


def print_agents(rows: list[dict[str, Any]], env: str) -> None:
    """What `sail agents` found: a table of the bases and one of the rules, since any goes with any."""
    console = Console(highlight=False, markup=False)
    title = Text(f"Base agents, as in {env}")
    bases = Table("base", "parts", "n", "optimiser", "published", title=title)
    plain = [row for row in rows if row["name"] == row["base"]]
    for row in plain:
        optimiser = row["optimiser"]
        numbers = f"{optimiser['name']} {optimiser['learning_rate']:g}, eps {optimiser['eps']:g}"
        bases.add_row(*map(Text, (row["base"], row["parts"], str(row["n_step"]), numbers, row["published"])))
    rules = Table("rule", "what it adds to the reward, before alpha and clip", title="Rules")
    for row in {row["rule"]: row for row in rows}.values():
        rules.add_row("" if row["rule"] == "bellman" else row["rule"], Text(row["rule_says"]))
    bases.title_justify = rules.title_justify = "left"
    console.print(bases)
    console.print(rules)
    console.print(
        f"An agent's name is a rule, a hyphen and a base, such as sail-iqn, or a base alone: {len(rows)} of them. "
        "'+rnd' behind it (or --rnd) adds random network distillation.",
        soft_wrap=True,
    )
    console.print(f"Numbers of the preset '{rows[0]['preset']}' (--json has them all) are from:", soft_wrap=True)
    for source in dict.fromkeys(row["numbers_from"] for row in plain):
        named = ", ".join(row["base"] for row in plain if row["numbers_from"] == source)
        console.print(f"  {named}: {source}", soft_wrap=True)
    for rule in {row["rule"]: row for row in rows if row["rule_numbers_from"]}.values():
        console.print(f"  {rule['rule']}: {rule['rule_numbers_from']}", soft_wrap=True)
