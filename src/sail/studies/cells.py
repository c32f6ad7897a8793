"""A study's cells: one run folder each."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sail.agents import names
from sail.config import Config, make_config
from sail.envs import SETTINGS as ON_DEVICE
from sail.errors import BadInputError
from sail.studies.definition import Definition, Grid
from sail.studies.marked import Marked, Where

MOST_CELLS = 1_000_000
MOST_LETTERS = 200
"""Of a folder's name; most file systems allow 255."""


@dataclass(frozen=True)
class Cell:
    """One run: what `sail train` would be told. The rest of its settings is filled in on the machine that starts it."""

    name: str
    """Its run folder below `cells/`, as in kdt/sail-dqn,env.slip=0.1/seeds0-4."""
    env: str
    agent: str
    preset: str | None
    settings: dict[str, Any]
    """By dotted name, the number of steps among them."""
    seed: int
    seeds: int

    @property
    def group(self) -> str:
        """What it shares with the cells that differ in nothing but seeds."""
        return self.name.rsplit("/", 1)[0]

    def config(self) -> Config:
        """Every setting of the run, for this machine."""
        overrides: dict[str, Any] = {"seed": self.seed, "seeds": self.seeds}
        for dotted, value in self.settings.items():
            *sections, leaf = dotted.split(".")
            node = overrides
            for section in sections:
                node = node.setdefault(section, {})
                if not isinstance(node, dict):
                    raise BadInputError(f"'{section}' is set twice, as a value and as a section.")
            node[leaf] = value
        return make_config(self.env, self.agent, overrides, self.preset)

    def command(self) -> list[str]:
        """What would run it by hand."""
        words = ["sail", "train", self.env, "--agent", self.agent, *(["--preset", self.preset] if self.preset else [])]
        for dotted, value in (*self.settings.items(), ("seed", self.seed), ("seeds", self.seeds)):
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value).lower()
            words += [f"--{dotted.replace('_', '-')}", str(value) if isinstance(value, str) else text]
        return words

    def to_tree(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def expand(definition: Definition, marked: Marked, existing: Sequence[Cell] = ()) -> list[Cell]:
    """The cells of a study, each checked.

    Seeds that `existing` cells have stay there, so that more seeds make more cells and leave the old ones as they are.
    """
    cells: list[Cell] = []
    taken: dict[str, set[int]] = {}  # the seeds of each group so far
    alike: dict[str, tuple[str | None, dict[str, Any]]] = {}
    there: dict[str, list[Cell]] = {}
    for cell in existing:
        there.setdefault(cell.group, []).append(cell)
    for grid in definition.grids:
        for env, agent, values in _points(grid):
            settings = {**grid.settings, **values}
            if grid.steps is not None:
                settings["steps"] = grid.steps
            shown = {**{key: grid.settings[key] for key in grid.own}, **values}
            group = f"{_plain(env)}/{','.join([_plain(agent), *(f'{k}={_plain(v)}' for k, v in shown.items())])}"
            if max(len(part) for part in group.split("/")) > MOST_LETTERS:
                raise marked.error(
                    grid.where, f"the name {group[:60]}... is too long for a folder: vary fewer settings."
                )
            one = Cell(f"{group}/", env, agent, grid.preset, settings, grid.seeds[0], 1)
            _check(one, grid, values, marked)
            twice = taken.setdefault(group, set()).intersection(grid.seeds)
            if twice or len(set(grid.seeds)) < len(grid.seeds):
                raise marked.error(grid.where, f"the cell {group} is there twice, with seeds in common.")
            taken[group].update(grid.seeds)
            if alike.setdefault(group, (grid.preset, settings)) != (grid.preset, settings):
                raise marked.error(
                    grid.where, f"the cell {group} is there twice, with different steps, preset or settings."
                )
            parts = _seed_cells(definition, grid, env, there.get(group, []))
            for seeds in {seeds for _, seeds in parts} - {1}:
                _check(replace(one, seeds=seeds), grid, values, marked)
            for seed, seeds in parts:
                name = f"{group}/seed{seed}" if seeds == 1 else f"{group}/seeds{seed}-{seed + seeds - 1}"
                cells.append(Cell(name, env, agent, grid.preset, settings, seed, seeds))
            if len(cells) > MOST_CELLS:
                raise marked.error(grid.where, f"this is a study of more than {MOST_CELLS:,} runs.")
    _check_baseline(definition, marked)
    return cells


def _points(grid: Grid) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for env, agent in itertools.product(grid.environments, grid.agents):
        for values in itertools.product(*grid.vary.values()):
            yield env, agent, dict(zip(grid.vary, values, strict=True))


def _seed_cells(definition: Definition, grid: Grid, env: str, existing: list[Cell]) -> list[tuple[int, int]]:
    """The seeds in runs of neighbours that train together: those that exist, and then the rest."""
    wanted = set(grid.seeds)
    kept = [(cell.seed, cell.seeds) for cell in existing if wanted.issuperset(range(cell.seed, cell.seed + cell.seeds))]
    rest = sorted(wanted.difference(*(range(seed, seed + seeds) for seed, seeds in kept)))
    at_most = definition.together or (1_000 if env in ON_DEVICE else 1)
    made: list[tuple[int, int]] = []
    for seed in rest:
        if made and made[-1][0] + made[-1][1] == seed and made[-1][1] < at_most:
            made[-1] = (made[-1][0], made[-1][1] + 1)
        else:
            made.append((seed, 1))
    return kept + made


def _check(cell: Cell, grid: Grid, values: dict[str, Any], marked: Marked) -> None:
    """Refuses settings that no run can have, naming the line that is to blame."""
    try:
        cell.config()
        return
    except BadInputError as error:
        problem = error
    where = _blame(cell, grid, values, str(problem))
    # What a grid does not say itself stands with what all of them share.
    inside = (*grid.where, *where)
    raise marked.error(inside if inside in marked.lines else where, str(problem)) from None


def _blame(cell: Cell, grid: Grid, values: dict[str, Any], sentence: str) -> Where:
    """The first part of a cell without which it would be possible: its environment, its agent, or a setting."""

    def fails(agent: str, settings: dict[str, Any], preset: str | None = None) -> str:
        try:
            Cell("", cell.env, agent, preset, settings, 0, cell.seeds).config()
        except BadInputError as error:
            return str(error)
        return ""

    if fails("dqn", {}):
        return ("environments", grid.env_items[grid.environments.index(cell.env)])
    try:
        names.parse(cell.agent)
    except BadInputError:
        return ("agents", grid.agents.index(cell.agent))
    if fails(cell.agent, {}, cell.preset):
        return ("preset",)
    so_far: dict[str, Any] = {}
    for key, value in cell.settings.items():
        so_far[key] = value
        if fails(cell.agent, so_far, cell.preset) == sentence:
            if key in values:
                return ("vary", key, grid.vary[key].index(value))
            return ("steps",) if key == "steps" else ("settings", key)
    return ("seeds",)


def _check_baseline(definition: Definition, marked: Marked) -> None:
    baseline = definition.report.baseline
    agents = {agent for grid in definition.grids for agent in grid.agents}
    if baseline is not None and baseline not in agents:
        raise marked.error(("report", "baseline"), f"the baseline {baseline} is not one of the study's agents.")
    envs = {env for grid in definition.grids for env in grid.environments}
    for env in definition.report.curves:
        if env not in envs:
            raise marked.error(("report", "curves"), f"{env} is not one of the study's environments.")


def _plain(value: Any) -> str:
    """A value as part of a folder's name."""
    if isinstance(value, list | tuple):
        return "x".join(map(_plain, value))
    text = "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return re.sub(r"[^A-Za-z0-9.+_-]+", "-", text)
