"""How shapes are checked in tests: every function whose signature names a jaxtyping array, nothing else.

Edges where people pass options and plain values check those themselves, with errors for people; they are tested for it.
"""

import typing
from collections.abc import Callable
from typing import Any

import jaxtyping
from beartype import BeartypeConf, beartype

_beartype = beartype(conf=BeartypeConf(is_pep484_tower=True))


def _names_an_array(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(_names_an_array(part) for part in typing.get_args(hint))


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    hints = getattr(function, "__annotations__", {}).values()
    checkable = typing.Self not in hints  # beartype knows Self only when it decorates whole classes
    return _beartype(function) if checkable and any(map(_names_an_array, hints)) else function
