"""Settings as fields of frozen dataclasses, each with its range and what it goes with, checked in one loop."""

import dataclasses
import difflib
import math
import numbers
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin

Settings = TypeVar("Settings")
NUMBERS = (int, float, int | None, float | None, int | Literal["unknown"] | None)
"""Type annotations of settings that are numbers."""


class Range(NamedTuple):
    """The numbers that a setting may be, and the words for them in an error."""

    words: str
    least: float = -math.inf
    most: float = math.inf
    above: float = -math.inf
    """Lower bound that is not in the range itself; `least` and `most` are."""

    def holds(self, value: float) -> bool:
        """Whether a number is in the range."""
        return self.least <= value <= self.most and value > self.above


ANY = Range("a number")
AT_LEAST_ONE = Range("at least 1", least=1)
NOT_NEGATIVE = Range("0 or more", least=0)
POSITIVE = Range("a positive number", above=0)
SHARE = Range("a share between 0 and 1", least=0, most=1)
MAX_SEED = 2**32 - 1
"""Largest seed: JAX would leave out the bits above it, and two seeds would be the same."""
SEED = Range(f"a number from 0 to {MAX_SEED}", least=0, most=MAX_SEED)


class About(NamedTuple):
    """What is known about a setting besides its type: its range, words for errors, and where it has an effect."""

    fits: Range = ANY
    hint: str = ""
    """Text that an error adds after the range, such as an example of what would do."""
    kind_hint: str = ""
    """Text that an error adds where the value is no number of the right kind at all."""
    only: Mapping[str, str] = MappingProxyType({})
    """Other settings by name, with the value that each must have for this one to have an effect."""


def setting(default: Any, fits: Range = ANY, hint: str = "", **more: Any) -> Any:
    """Returns a dataclass field with its default, its range and what else there is to say about it; see `About`."""
    return dataclasses.field(default=default, metadata={"about": About(fits, hint, **more)})


def about(field: dataclasses.Field[Any]) -> About:
    """Returns the `About` of a dataclass field, or a blank one if it has none."""
    found: About = field.metadata.get("about", About())
    return found


def check_settings(settings: Any, error: type[ValueError]) -> None:
    """Refuses invalid settings, and those without effect beside the others; NumPy's numbers become plain ones."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.type in NUMBERS:
            object.__setattr__(settings, field.name, _number(field, value, error))
        else:
            _check_choice(field, value, error)
    for field in dataclasses.fields(settings):
        _check_meaning(settings, field, error)


def changed(settings: Settings, changes: Mapping[str, Any], error: type[ValueError]) -> Settings:
    """Returns a copy with some settings changed; unknown names are refused."""
    given: Any = settings  # a dataclass, which no type says
    known = [field.name for field in dataclasses.fields(given)]
    for name in changes:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f": did you mean {close[0]}?" if close else f": there are {', '.join(known)}."
            raise error(f"There is no setting {name}{hint}")
    new: Settings = dataclasses.replace(given, **changes)
    return new


def plain_number(value: Any, kind: Any) -> int | float | None:
    """Returns the value as a plain int or float if it is a finite number of this type, else None."""
    whole = is_whole(kind)
    wanted: Any = numbers.Integral if whole else numbers.Real
    if isinstance(value, bool) or not isinstance(value, wanted) or not math.isfinite(value):
        return None
    # A plain 1 stays one where any number will do: folders of trainings are named by the text of their settings.
    return int(value) if whole or type(value) is int else float(value)


def is_whole(kind: Any) -> bool:
    """Whether a type of numbers admits whole ones only."""
    return int in (kind, *get_args(kind))


def _number(field: dataclasses.Field[Any], value: Any, error: type[ValueError]) -> int | float | None:
    """Returns the value of a setting that is a number as it is kept; refuses what is not in its range."""
    if value is None and type(None) in get_args(field.type):
        return None
    known, number = about(field), plain_number(value, field.type)
    if number is None:
        raise error(
            f"{field.name} is {value!r}: use {'a whole' if is_whole(field.type) else 'a'} number{known.kind_hint}."
        )
    if not known.fits.holds(number):
        raise error(f"{field.name} is {number}: use {known.fits.words}{known.hint}.")
    return number


def _check_choice(field: dataclasses.Field[Any], value: Any, error: type[ValueError]) -> None:
    choices = _choices_of(field.type)
    if choices and not any(isinstance(value, type(choice)) and value == choice for choice in choices):
        raise error(f"{field.name} is {value!r}: use {' or '.join(map(repr, choices))}.")


def _choices_of(kind: Any) -> tuple[Any, ...]:
    """All values of a type that has few (a Literal or a bool); none for other types."""
    if get_origin(kind) is Literal:
        return get_args(kind)
    yes_or_no = {bool: (True, False), bool | None: (True, False, None)}
    return yes_or_no.get(kind, ())


def _check_meaning(settings: Any, field: dataclasses.Field[Any], error: type[ValueError]) -> None:
    """Refuses a setting that differs from its default where the values of others leave it without effect."""
    if getattr(settings, field.name) == field.default:
        return
    for other, wanted in about(field).only.items():
        if (given := getattr(settings, other)) != wanted:
            raise error(f'{field.name} has no meaning for {given} {other}: leave it out, or pass {other}="{wanted}".')
