"""What a study file says: a grid over environments, agents, seeds and settings, a budget, and what to report.

title: SAIL beside its parts
environments: [kdt, group:hard-exploration]   # a group is a list of Atari games: see GROUPS
agents: [dqn, al-dqn, sail-dqn]
seeds: 5                # 0 to 4; or [3, 7], or {first: 100, count: 20}
steps: 300000           # of each seed; or frames, for Atari
settings: {rule.alpha: 0.5}          # of every run
vary: {env.slip: [0, 0.1, 0.25]}     # a run for each value; several keys make a grid
grids: [...]            # further grids: the keys above again, where they differ
together: 1             # seeds trained in one process
resources: {cores: 1, memory: 2GB, gpus: 0, time_limit: 1h, retries: 2}
report: {baseline: dqn, show: [curves, final-scores]}
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from sail.envs.atari_settings import FRAME_SKIP
from sail.errors import unknown_name
from sail.games import GROUPS
from sail.studies.marked import Marked, Where
from sail.studies.resources import Resources, read_resources

_SCORES = ("final-scores", "average-scores", "relative-improvement", "human-normalised", "success")
FIGURES = (*_SCORES, "curves", "statistics", "sticky", "bonus", "speed")
GRID_KEYS = ("environments", "agents", "seeds", "steps", "frames", "preset", "settings", "vary")
KEYS = ("title", "about", *GRID_KEYS, "grids", "together", "resources", "report")
OF_THE_STUDY = {"seed": "seeds", "seeds": "seeds", "steps": "steps", "frames": "frames", "env.name": "environments"}
OF_THE_STUDY |= {"agent.base": "agents", "rule.name": "agents", "rnd.enabled": "agents"}
"""What a cell's name and size come from."""
MOST_SEEDS = 100_000


@dataclass(frozen=True)
class Report:
    """What a report of the study is about."""

    baseline: str | None = None
    """The agent that the others are compared with."""
    show: tuple[str, ...] = ("curves", "final-scores", "statistics")
    curves: tuple[str, ...] = ()
    """Environments whose curves are worth a look; none for all."""


@dataclass(frozen=True)
class Grid:
    """Environments x agents x values of settings x seeds."""

    environments: tuple[str, ...] = ()
    env_items: tuple[int, ...] = ()
    """For each of them, which item of the file's list it came from."""
    agents: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    steps: int | None = None
    """Agent steps; None for the environment's own number."""
    preset: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """By dotted name."""
    vary: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    """Settings that this grid has to itself: they are part of its cells' names."""
    frames: Where | None = None
    where: Where = ()
    """Where in the file it stands."""


@dataclass(frozen=True)
class Definition:
    """A study file, read."""

    name: str
    title: str
    about: str
    settings: dict[str, Any]
    """What all grids share; each has them too."""
    grids: tuple[Grid, ...]
    together: int | None
    """Seeds in one process; None for all where the environment is compiled in, and else for one."""
    resources: Resources
    report: Report

    def to_tree(self) -> dict[str, Any]:
        """The definition as a study file would say it, with every grid written out."""
        report = {key: list(v) if isinstance(v, tuple) else v for key, v in vars(self.report).items()}
        tree = {
            "title": self.title,
            "about": self.about,
            **self.decides_results(),
            "together": self.together,
            "resources": self.resources.to_tree(),
            "report": {key: value for key, value in report.items() if value or key == "show"},
        }
        return {key: value for key, value in tree.items() if value}

    def decides_results(self) -> dict[str, Any]:
        """The part of it that decides what its cells compute."""
        return {"settings": self.settings, "grids": [_grid_tree(grid) for grid in self.grids]}


def _grid_tree(grid: Grid) -> dict[str, Any]:
    first, count = grid.seeds[0], len(grid.seeds)
    in_a_row = grid.seeds == tuple(range(first, first + count))
    tree: dict[str, Any] = {
        "environments": list(grid.environments),
        "agents": list(grid.agents),
        "seeds": {"first": first, "count": count} if in_a_row else list(grid.seeds),
        "steps": grid.steps,
        "preset": grid.preset,
        "settings": {key: grid.settings[key] for key in grid.own},
        "vary": {key: list(values) for key, values in grid.vary.items()},
    }
    return {key: value for key, value in tree.items() if value not in (None, {})}


def read_definition(marked: Marked, name: str) -> Definition:
    """Checks a study file and reads it. What only a whole cell shows is checked by `cells.expand`."""
    tree = marked.tree
    if not isinstance(tree, dict):
        raise marked.error((), "a study is a mapping of keys such as environments, agents, seeds and steps.")
    _known_keys(marked, tree, (), KEYS)
    shared = _read_grid(marked, {key: tree[key] for key in GRID_KEYS if key in tree}, (), Grid())
    grids = [shared]
    if "grids" in tree:
        items = _list(marked, tree["grids"], ("grids",), "grids")
        if not items:
            raise marked.error(("grids",), "grids must have at least one.")
        grids = [_read_further(marked, item, i, shared) for i, item in enumerate(items)]
    for grid in grids:
        for key in ("environments", "agents", "seeds"):
            if not getattr(grid, key):
                raise marked.error((*grid.where, key), f"the grid is empty: {key} must name at least one.")
        outside = [env for env in grid.environments if not env.startswith("atari:")]
        if grid.frames and outside:
            raise marked.error(grid.frames, f"frames are for Atari games: give steps for {outside[0]}.")
    return Definition(
        name=name,
        title=_text(marked, tree, "title") or name,
        about=_text(marked, tree, "about"),
        settings=shared.settings,
        grids=tuple(grids),
        together=_count(marked, tree["together"], ("together",), 1) if "together" in tree else None,
        resources=read_resources(marked, tree.get("resources", {}), ("resources",)),
        report=_read_report(marked, tree.get("report", {})),
    )


def _read_further(marked: Marked, item: Any, i: int, shared: Grid) -> Grid:
    where: Where = ("grids", i)
    if not isinstance(item, dict):
        raise marked.error(where, "a grid is a mapping of keys such as environments and agents.")
    _known_keys(marked, item, where, GRID_KEYS)
    return _read_grid(marked, item, where, shared)


def _read_grid(marked: Marked, tree: dict[str, Any], where: Where, base: Grid) -> Grid:
    """A grid: what the file says of it over what all grids share."""
    changes: dict[str, Any] = {"where": where}
    if "environments" in tree:
        found = _environments(marked, tree["environments"], (*where, "environments"))
        changes["environments"], changes["env_items"] = tuple(name for name, _ in found), tuple(i for _, i in found)
    if "agents" in tree:
        agents = _list(marked, tree["agents"], (*where, "agents"), "agents")
        changes["agents"] = tuple(_word(marked, one, (*where, "agents", i), "agents") for i, one in enumerate(agents))
    if "seeds" in tree:
        changes["seeds"] = _seeds(marked, tree["seeds"], (*where, "seeds"))
    if "steps" in tree and "frames" in tree:
        raise marked.error((*where, "frames"), "give steps or frames, not both.")
    if "steps" in tree:
        changes["steps"] = _count(marked, tree["steps"], (*where, "steps"), 1)
        changes["frames"] = None
    if "frames" in tree:
        changes["steps"] = -(-_count(marked, tree["frames"], (*where, "frames"), 1) // FRAME_SKIP)
        changes["frames"] = (*where, "frames")
    if "preset" in tree:
        name = tree["preset"]
        changes["preset"] = None if name is None else _word(marked, name, (*where, "preset"), "preset")
    settings = flat_settings(marked, tree.get("settings", {}), (*where, "settings"))
    changes["settings"] = {**base.settings, **settings}
    changes["own"] = tuple(settings) if where else ()
    if "vary" in tree:
        values = flat_settings(marked, tree["vary"], (*where, "vary"))
        changes["vary"] = {
            key: tuple(_list(marked, some, (*where, "vary", key), f"vary.{key}")) for key, some in values.items()
        }
        for key, some in changes["vary"].items():
            if any(one in some[:i] for i, one in enumerate(some)):
                raise marked.error((*where, "vary", key), f"vary.{key} has a value twice.")
            if not some:
                raise marked.error(
                    (*where, "vary", key), f"the grid is empty: vary.{key} must have at least one value."
                )
    return replace(base, **changes)


def flat_settings(marked: Marked, tree: Any, where: Where, inside: bool = False) -> dict[str, Any]:
    """Settings by dotted name, whether the file has them dotted or in sections; lists are values."""
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise marked.error(where, f"{where[-1]} must be a mapping of settings, not {tree!r}.")
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        dotted = key.replace("-", "_")
        inner = flat_settings(marked, value, (*where, key), True) if isinstance(value, dict) else {None: value}
        for name, one in inner.items():
            full = dotted if name is None else f"{dotted}.{name}"
            source = (*where, key) if name is None else (*where, key, name)
            marked.lines.setdefault((*where, full), marked.lines[source])
            for i in range(len(one) if isinstance(one, list) else 0):
                marked.lines.setdefault((*where, full, i), marked.lines[(*source, i)])
            if full in flat:
                raise marked.error((*where, key), f"'{full}' is there twice.")
            if not inside and full in OF_THE_STUDY:
                raise marked.error(
                    (*where, key), f"{full} is not for settings: the study's {OF_THE_STUDY[full]} say it."
                )
            flat[full] = one
    return flat


def _environments(marked: Marked, items: Any, where: Where) -> list[tuple[str, int]]:
    """Names, each with the item that it came from."""
    names: list[tuple[str, int]] = []
    for i, item in enumerate(_list(marked, items, where, "environments")):
        name = _word(marked, item, (*where, i), "environments")
        if name.startswith("group:"):
            group = name.removeprefix("group:")
            if group not in GROUPS:
                raise marked.error((*where, i), str(unknown_name("group of games", group, GROUPS)))
            names += [(f"atari:{game}", i) for game in GROUPS[group]]
        else:
            names.append((name, i))
    return names


def _seeds(marked: Marked, value: Any, where: Where) -> tuple[int, ...]:
    if isinstance(value, list):
        return tuple(_count(marked, one, (*where, i), 0) for i, one in enumerate(value))
    if isinstance(value, dict):
        _known_keys(marked, value, where, ("first", "count"))
        count = _count(marked, value.get("count", 1), (*where, "count"), 1, MOST_SEEDS)
        first = _count(marked, value.get("first", 0), (*where, "first"), 0, 2**31 - count)
        return tuple(range(first, first + count))
    return tuple(range(_count(marked, value, where, 1, MOST_SEEDS)))


def _read_report(marked: Marked, tree: Any) -> Report:
    where: Where = ("report",)
    if not isinstance(tree, dict):
        raise marked.error(where, f"report must be a mapping, not {tree!r}.")
    _known_keys(marked, tree, where, [one.name for one in fields(Report)])
    shown = _list(marked, tree.get("show", list(Report.show)), (*where, "show"), "report.show")
    for i, figure in enumerate(shown):
        if figure not in FIGURES:
            raise marked.error((*where, "show", i), str(unknown_name("figure", str(figure), FIGURES)))
    baseline = _text(marked, tree, "baseline", where)
    curves = _environments(marked, tree.get("curves", []), (*where, "curves"))
    return Report(baseline or None, tuple(shown), tuple(name for name, _ in curves))


def _known_keys(marked: Marked, tree: dict[str, Any], where: Where, known: Any) -> None:
    for key in tree:
        if key not in known:
            section = "".join(f"{part}." for part in where if isinstance(part, str) and part != "grids")
            raise marked.error((*where, key), str(unknown_name("key", key, known, section)))


def _list(marked: Marked, value: Any, where: Where, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise marked.error(where, f"{what} must be a list, not {value!r}.")
    return value


def _word(marked: Marked, value: Any, where: Where, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise marked.error(where, f"{what} must be a name, not {value!r}.")
    return value


def _text(marked: Marked, tree: dict[str, Any], key: str, where: Where = ()) -> str:
    value = tree.get(key, "")
    if not isinstance(value, str):
        raise marked.error((*where, key), f"{key} must be text, not {value!r}.")
    return " ".join(value.split())


def _count(marked: Marked, value: Any, where: Where, least: int, most: int = 2**31 - 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        what = ".".join(str(part) for part in where if isinstance(part, str) and part != "grids")
        raise marked.error(where, f"{what} must be a whole number from {least:,} to {most:,}, not {value!r}.")
    return value
