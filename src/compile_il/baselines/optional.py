"""Import of libraries that only baselines need."""

import importlib
from typing import Any

from compile_il.extras import MissingExtraError


def import_baseline_library(name: str) -> Any:
    """Returns a module of the extra `baselines`, or raises an error that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        words = f"This baseline needs {name}, an extra: pip install 'compile-il[baselines]'"
        raise MissingExtraError(words) from error
