"""YAML that remembers where everything stood, so that an error can name file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from sail.errors import BadInputError

Where = tuple[str | int, ...]
"""A path into the tree: keys of mappings and positions in lists."""


MOST_NODES = 1_000_000


class Marked:
    """A parsed YAML file: `tree`, and the line of every key and item in it."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.lines: dict[Where, int] = {(): 1}
        self._open: list[yaml.Node] = []
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
            self.tree: Any = None if root is None else self._read(root, ())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = mark.line + 1 if mark else 1
            raise BadInputError(f"{file}, line {line}: this is not YAML: {error.problem or error.context}.") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise BadInputError(f"{file}, line {line}: this is not YAML: {error.reason}.") from None
        except RecursionError:
            raise BadInputError(f"{file}, line 1: this is nested too deeply.") from None

    @classmethod
    def from_file(cls, path: Path) -> Marked:
        """Reads a file."""
        try:
            return cls(str(path), path.read_text())
        except UnicodeDecodeError:
            raise BadInputError(f"{path} is no text file.") from None
        except OSError as error:
            raise BadInputError(f"{path} cannot be read: {error.strerror}.") from None

    def error(self, where: Where, sentence: str) -> BadInputError:
        """The error for something at a place, or at the nearest place around it that is in the file."""
        while where not in self.lines:
            where = where[:-1]
        return BadInputError(f"{self.file}, line {self.lines[where]}: {sentence}")

    def _read(self, node: yaml.Node, where: Where) -> Any:
        self.lines.setdefault(where, node.start_mark.line + 1)
        if len(self.lines) > MOST_NODES:
            raise self.error(where, "this is more than a study can be: an alias of aliases, perhaps.")
        if any(node is one for one in self._open):
            raise self.error(where, "this is an alias of what it stands in.")
        self._open.append(node)
        try:
            return self._read_inside(node, where)
        finally:
            self._open.pop()

    def _read_inside(self, node: yaml.Node, where: Where) -> Any:
        if isinstance(node, yaml.SequenceNode):
            return [self._read(child, (*where, i)) for i, child in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            tree: dict[str, Any] = {}
            for key_node, child in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    self.lines[where] = key_node.start_mark.line + 1
                    raise self.error(where, "a key must be a word.")
                key = str(key_node.value)
                again = key in tree
                self.lines[(*where, key)] = key_node.start_mark.line + 1
                if again:
                    raise self.error((*where, key), f"'{key}' is there twice.")
                tree[key] = self._read(child, (*where, key))
            return tree
        try:
            return _scalar(node)
        except (ValueError, KeyError, AttributeError, TypeError):  # a 13th month
            raise self.error(where, f"{str(node.value)[:40]!r} cannot be read: quote it if it is text.") from None


def _scalar(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        value = loader.construct_object(node)
    finally:
        loader.dispose()
    # PyYAML takes 1e6 for a word, since it has no point.
    return _unquoted(value) if isinstance(value, str) and getattr(node, "style", None) is None else value


def _unquoted(value: str) -> Any:
    if value.lower() == "none":  # as a flag would say it
        return None
    try:
        number = float(value)
    except ValueError:
        return value
    return int(number) if number.is_integer() and "." not in value else number


class _Dumper(yaml.SafeDumper):
    """Quotes what `Marked` would not take for a word."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, None if isinstance(_unquoted(text), str) else "'"
    ),
)


def dump(tree: Any) -> str:
    """YAML that reads as the same tree."""
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
