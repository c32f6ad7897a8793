"""`sail study`: list, show, plan, run, status, extend."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sail.arguments import count, counts
from sail.errors import BadInputError, unknown_name
from sail.studies import library
from sail.studies.cells import Cell, expand
from sail.studies.definition import Definition, read_definition
from sail.studies.folder import StudyFolder, extend, open_or_create, up_to_date
from sail.studies.marked import Marked, dump
from sail.studies.resources import Resources, read_resource

if TYPE_CHECKING:
    from sail.studies.driver import Executor

EXECUTORS = ("local", "ray")


def add_parser(subparsers: Any, parser_class: Any, epilog: str) -> None:
    """The command and its own commands."""
    about = "Run many trainings from one file: list, show, plan, run, status, extend."
    study = subparsers.add_parser("study", help=about, description=about, epilog=epilog, allow_abbrev=False)
    study.set_defaults(function=lambda options, overrides: _help(study))
    inner = study.add_subparsers(dest="study_command", metavar="COMMAND", parser_class=parser_class)

    def command(name: str, help: str, function: Callable[[argparse.Namespace], int]) -> Any:
        sub = inner.add_parser(name, help=help, description=help, epilog=epilog, allow_abbrev=False)
        sub.set_defaults(function=lambda options, overrides: function(options))
        sub.add_argument("--json", action="store_true", help="print the result as JSON")
        return sub

    command("list", "List the studies that come with sail.", _list)
    show = command("show", "Show what a study would run.", _show)
    plan = command("plan", "Reckon what a study costs, from what 'sail bench' found.", _plan)
    run = command("run", "Run what is missing of a study.", _run)
    status = command("status", "Show how far a study is.", _status)
    more = command("extend", "Add seeds, environments or agents to a study; 'run' then runs what is new.", _extend)
    for sub in (show, plan, run):
        sub.add_argument("study", help="a study of the library, a YAML file, or a study folder")
    for sub in (status, more):
        sub.add_argument("folder", help="study folder")
    plan.add_argument("--bench", action="append", help="result of 'sail bench --out', instead of this machine's own")
    plan.add_argument("--devices", type=counts, default=[1, 2, 4, 8], help="on how many, as in 1,8 (default: 1,2,4,8)")
    plan.add_argument("--measure", action="store_true", help="measure what is missing first (half a minute each)")
    run.add_argument("--out", help="study folder (default: studies/NAME)")
    run.add_argument("--executor", help="local processes, or ray: a cluster (default: local)")
    run.add_argument("--address", help="Ray cluster to use: auto or HOST:PORT (default: start one for this study)")
    run.add_argument("--workers", type=count, help="cells at a time on this machine (default: as many as fit)")
    run.add_argument("--quiet", action="store_true", help="no progress")
    for name in ("cores", "memory", "gpus", "time-limit", "retries"):
        run.add_argument(f"--{name}", help=f"of a cell, instead of the study's resources.{name.replace('-', '_')}")
    status.add_argument("--live", action="store_true", help="renew the table until the study ends")
    more.add_argument("--seeds", type=count, help="how many seeds there shall be")
    more.add_argument("--environments", nargs="+", default=[], help="environments to add")
    more.add_argument("--agents", nargs="+", default=[], help="agents to add")
    more.add_argument("--file", help="a study file that says all of it, the old and the new")


def _help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0


def _list(options: argparse.Namespace) -> int:
    rows = []
    for name in library.shipped():
        definition, cells = _read(*library.find(name))
        runs = sum(cell.seeds for cell in cells)
        rows.append(
            {"name": name, "title": definition.title, "cells": len(cells), "runs": runs, "about": definition.about}
        )
    if options.json:
        print(json.dumps(rows))
    else:
        from sail.studies.console import print_list

        print_list(rows)
    return 0


def _read(name: str, marked: Marked) -> tuple[Definition, list[Cell]]:
    definition = read_definition(marked, name)
    return definition, expand(definition, marked)


def _open(name: str) -> tuple[Definition, list[Cell]]:
    """A study of any kind, a folder's among them."""
    if _is_study_folder(name):
        study = StudyFolder(name)
        return study.definition()[0], study.cells
    return _read(*library.find(name))


def _is_study_folder(name: str) -> bool:
    try:
        return (Path(name) / "study.json").is_file()
    except OSError:  # no name for a folder
        return False


def _show(options: argparse.Namespace) -> int:
    definition, cells = _open(options.study)
    if options.json:
        tree = {"name": definition.name, **definition.to_tree(), "cells": [cell.to_tree() for cell in cells]}
        print(json.dumps(tree))
        return 0
    print(dump(definition.to_tree()), end="")
    shown = [cell.name for cell in cells[:5]]
    print(f"# {len(cells):,} cells, {sum(cell.seeds for cell in cells):,} runs: {', '.join(shown)}", end="")
    print(", ..." if len(cells) > len(shown) else "")
    return 0


def _plan(options: argparse.Namespace) -> int:
    definition, cells = _open(options.study)
    from sail.studies.plan import read_benches, study_plan

    if options.bench and options.measure:
        raise BadInputError("Give --bench or --measure, not both: the former is instead of this machine's own figures.")
    benches = read_benches(options.bench) if options.bench else None
    plan = study_plan(definition.name, cells, benches, options.devices)
    if options.measure and plan["missing"]:
        _measure(plan["missing"])
        plan = study_plan(definition.name, cells, benches, options.devices)
    if options.json:
        print(json.dumps(plan))
    else:
        from sail.studies.console import print_plan

        print_plan(plan)
    return 0


def _measure(commands: list[str]) -> None:
    """Each in a process of its own, as someone at a terminal would: one's memory is not there for the next."""
    import subprocess

    for command in commands:
        print(f"Measuring: {command}", file=sys.stderr, flush=True)
        arguments = [sys.executable, "-m", "sail", *command.split()[1:], "--seconds", "10", "--json"]
        done = subprocess.run(arguments, capture_output=True, text=True)
        if done.returncode:
            raise BadInputError(f"'{command}' failed: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")


def _run(options: argparse.Namespace) -> int:
    executor = options.executor or ("ray" if options.address else "local")
    if executor not in EXECUTORS:
        raise unknown_name("executor", executor, EXECUTORS)
    if executor == "local" and options.address:
        raise BadInputError("--address is for the executor 'ray'.")
    if executor == "ray" and options.workers:
        raise BadInputError("--workers is for the executor 'local': Ray runs as many cells as its nodes have room for.")
    changes = {
        name: read_resource(name, value)
        for name in ("cores", "memory", "gpus", "time_limit", "retries")
        if (value := getattr(options, name)) is not None
    }
    begun, name, marked = _study_to_run(options)
    from sail.studies.console import StudyReporter, print_status
    from sail.studies.driver import run_study
    from sail.studies.status import study_status

    with begun.driving():
        with ExitStack() as if_refused:
            if_refused.callback(begun.discard)
            study = begun if marked is None else up_to_date(begun, marked, name)
            resources = Resources(**{**study.definition()[0].resources.to_tree(), **changes})
            runner = _executor(executor, study, resources, options)
            if_refused.pop_all()
        with StudyReporter(study, options.quiet) as reporter:
            reporter.note(f"{study.name}: {len(study.cells)} cells into {study.path}, {runner.workers} at a time.")
            failed = run_study(study, runner, resources, reporter)
    status = study_status(study)
    if options.json:
        print(json.dumps(status))
    else:
        print_status(status)
    return 1 if failed else 0


def _executor(kind: str, study: StudyFolder, resources: Resources, options: argparse.Namespace) -> Executor:
    if kind == "ray":
        from sail.studies.on_ray import RayExecutor

        return RayExecutor(study, resources, options.address)
    from sail.studies.local import LocalExecutor

    return LocalExecutor(study, resources, options.workers)


def _study_to_run(options: argparse.Namespace) -> tuple[StudyFolder, str, Marked | None]:
    """The folder, and the name and file to compare it with, if the folder itself was not what was named."""
    if _is_study_folder(options.study):
        if options.out is not None and Path(options.out).absolute() != Path(options.study).absolute():
            raise BadInputError(f"{options.study} is a study folder already: it goes on where it is, without --out.")
        study = StudyFolder(options.study)
        return study, study.name, None
    name, marked = library.find(options.study)
    return open_or_create(Path(options.out or Path("studies") / name), marked, name), name, marked


def _status(options: argparse.Namespace) -> int:
    study = StudyFolder(options.folder)
    from sail.studies.console import live_status, print_status
    from sail.studies.status import study_status

    if options.live and not options.json:
        live_status(study)
        return 0
    status = study_status(study)
    if options.json:
        print(json.dumps(status))
    else:
        print_status(status)
    return 0


def _extend(options: argparse.Namespace) -> int:
    if options.file and (options.seeds or options.environments or options.agents):
        raise BadInputError("Give --file, or what to add, not both.")
    with StudyFolder(options.folder).driving():
        study = StudyFolder(options.folder)
        marked = Marked.from_file(Path(options.file)) if options.file else _larger(study, options)
        study, new = extend(study, marked, study.name)
    if options.json:
        print(json.dumps({"total": len(study.cells), "new": [cell.name for cell in new]}))
        return 0
    print(f"{study.path} has {len(new)} new cells, {len(study.cells)} in all.")
    print(f"Run them with 'sail study run {options.folder}'.")
    return 0


def _larger(study: StudyFolder, options: argparse.Namespace) -> Marked:
    """The study's own file with more seeds, environments or agents in every grid."""
    definition, _ = study.definition()
    tree = definition.to_tree()
    if not (options.seeds or options.environments or options.agents):
        raise BadInputError("Say what to add: --seeds, --environments, --agents, or --file.")
    for grid, read in zip(tree["grids"], definition.grids, strict=True):
        for key, more in (("environments", options.environments), ("agents", options.agents)):
            grid[key] = [*grid[key], *(one for one in more if one not in grid[key])]
        if options.seeds:
            first = read.seeds[0]
            if options.seeds < len(read.seeds):
                raise BadInputError(f"There are {len(read.seeds)} seeds already: --seeds can only be more.")
            if read.seeds != tuple(range(first, first + len(read.seeds))):
                raise BadInputError("The seeds of this study are a list: add to it with --file.")
            grid["seeds"] = {"first": first, "count": options.seeds}
    return Marked(str(study.path / "study.yaml"), dump(tree))
