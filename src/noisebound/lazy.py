"""Packages whose names are imported when they are used, so that a command starts without torch.

A package lists its names once, as imports under ``if TYPE_CHECKING:``, where type checkers and
readers look for them.
"""

import ast
import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from noisebound.errors import missing_extra


class LazyPackage(ModuleType):
    """A package that imports each of its public names on first use."""

    def __getattr__(self, name: str) -> Any:
        """Import a name; this is called only for names that the package does not hold yet."""
        if name == "__all__":
            return sorted(self._origins)
        if name not in self._origins:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            module = import_module(self._origins[name])
        except ModuleNotFoundError as error:
            missing = missing_extra(f"{self.__name__}.{name}", error)
            if missing is None:
                raise
            raise missing from error
        value = getattr(module, name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        """Keep a module, such as ``data.load``, from hiding the public name that it defines."""
        if not (isinstance(value, ModuleType) and name in self._origins):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._origins})

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        """Pickle the package by its name, as part of a function that other processes run."""
        return import_module, (self.__name__,)

    @cached_property
    def _origins(self) -> dict[str, str]:
        """The module of each public name, as the package's own file imports it."""
        tree = ast.parse(Path(str(self.__file__)).read_text(encoding="utf-8"))
        return {
            alias.name: str(statement.module)
            for block in tree.body
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for statement in block.body
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        }


def import_when_used(package: str) -> None:
    """Import the names under ``if TYPE_CHECKING:`` of a package when they are first used."""
    sys.modules[package].__class__ = LazyPackage
