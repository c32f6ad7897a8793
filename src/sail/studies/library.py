"""The studies that come with sail, and how a name on the command line finds one."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sail.errors import BadInputError, unknown_name
from sail.studies.marked import Marked

FILES = Path(__file__).parent / "files"


@cache
def shipped() -> dict[str, Path]:
    """Every study of the library, by its name, such as paper/dqn."""
    return {str(path.relative_to(FILES).with_suffix("")): path for path in sorted(FILES.rglob("*.yaml"))}


def find(name: str) -> tuple[str, Marked]:
    """A study's name and file: one of the library's, or a file of the user's own."""
    path = Path(name)
    if name in shipped():
        return name, Marked.from_file(shipped()[name])
    if path.is_file():
        return path.stem, Marked.from_file(path)
    if path.is_dir():
        raise BadInputError(f"{name} is a folder without a study.json: name a study, its file or its folder.")
    if path.suffix in (".yaml", ".yml") or name.startswith((".", "/")):
        raise BadInputError(f"There is no study file {name}.")
    raise unknown_name("study", name, shipped(), shown=[*shipped(), "a YAML file of your own"])
