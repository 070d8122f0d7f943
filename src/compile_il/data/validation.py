"""Checks observations and actions: one dtype for each kind, and errors that say what to do.

Values are checked over all episodes at once; only an error looks for the episode and step it is about.
"""

import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Integer

from compile_il.config import CompileError, CompileWarning
from compile_il.data.ragged import Ragged, Storage

ObservationKind = Literal["grid", "vector", "symbol"]
ActionKind = Literal["discrete", "continuous"]
KIND_OF_RANK: dict[int, ObservationKind] = {0: "symbol", 1: "vector", 3: "grid"}  # rank of one observation

INTEGERS, REALS = "biu", "f"  # letters of `dtype.kind`; True and False count as 1 and 0
INT32_MAX = int(np.iinfo(np.int32).max)
LEAST_STEPS = 200
"""Least standard deviation of a column, in units of its largest rounding error in float32."""
CONSTANT = 1e-12
"""Columns that spread less, relative to their largest entry, are constant but for the rounding of float64."""
MOST_LIKE_DISCRETE = 100
"""Most different whole numbers, held as floats, that are more likely names of actions than measured ones."""


class DemonstrationError(CompileError):
    """Demonstrations that cannot be right. The message says what is wrong, where, and what to do."""


class ActionWarning(CompileWarning):
    """Warns that actions seem to be discrete, and are taken for continuous."""


def pack_episodes(observations: Sequence[Any] | None, actions: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Puts lists of arrays, one per episode, end to end, as frames, actions and lengths of `check_packed`."""
    check_list(actions, "actions")
    action_arrays = [as_array(part, f"Actions of episode {i}") for i, part in enumerate(actions)]
    lengths = np.array([len(part) for part in action_arrays], np.int64)
    _check_lengths(lengths)
    _check_same_space(action_arrays, "Actions")
    if observations is None:
        return None, np.concatenate(action_arrays), lengths
    check_list(observations, "observations", expected=len(actions))
    frames = [as_array(part, f"Observations of episode {i}") for i, part in enumerate(observations)]
    for i, (part, length) in enumerate(zip(frames, lengths.tolist(), strict=True)):
        if len(part) != length + 1:
            raise DemonstrationError(
                f"Episode {i} has {len(part)} observations for {length} actions; expected {length + 1}: the "
                "final observation, where the episode ended, is needed. If it is lost, repeat the last one."
            )
    _check_same_space(frames, "Observations")
    return np.concatenate(frames), np.concatenate(action_arrays), lengths


def _check_same_space(parts: list[np.ndarray], what: str) -> None:
    """Refuses episodes whose rows differ in shape from those of episode 0, and integer actions beside real ones."""
    first = parts[0]
    for i, part in enumerate(parts):
        mixed = what == "Actions" and (part.dtype.kind in REALS) != (first.dtype.kind in REALS)
        if mixed or part.shape[1:] != first.shape[1:]:
            raise DemonstrationError(
                f"{what} of episode {i} are {part.dtype} of shape {part.shape[1:]} each, those of episode 0 "
                f"{first.dtype} of shape {first.shape[1:]}; bring all episodes into one space."
            )


def check_packed(frames: Any | None, actions: Any, lengths: Any, num_actions: int | None) -> Storage:
    """Checks and casts arrays that hold all episodes end to end. See `Demonstrations.from_packed`."""
    _check_lengths(lengths := as_array(lengths, "lengths"))
    lengths, actions = lengths.astype(np.int64), as_array(actions, "Actions")
    check_counts(lengths, len(actions), "actions")
    frames = np.zeros((len(actions) + len(lengths), 0), np.float32) if frames is None else as_array(frames, "Frames")
    check_counts(lengths + 1, len(frames), "frames, where an episode has one more than it has actions")
    observations = _check_observations(Ragged(frames, lengths + 1))
    if actions.dtype.kind not in REALS:
        return Storage(observations, *_check_discrete(Ragged(actions, lengths), num_actions))
    if actions.ndim == 1:
        different = np.unique(actions)
        if 1 < len(different) <= min(MOST_LIKE_DISCRETE, len(actions) - 1) and (different == np.round(different)).all():
            warnings.warn(
                "Actions are whole numbers as floats, and are taken for continuous; if they are discrete, pass "
                "integers (values.astype(int)), and if they are not, reshape to (T, 1).",
                ActionWarning,
                stacklevel=3,  # where somebody called a method of Demonstrations
            )
        actions = actions[:, None]
    if num_actions is not None:
        raise DemonstrationError(
            f"num_actions is {num_actions}, but the actions are {actions.dtype}; "
            "cast them to integers if they are discrete, else leave num_actions out."
        )
    if actions.ndim != 2 or actions.shape[1] == 0:
        raise DemonstrationError(f"Each action has shape {actions.shape[1:]}; reshape to (A,), with A at least 1.")
    return Storage(observations, _to_float32(Ragged(actions, lengths), "action"))


def _check_lengths(lengths: np.ndarray) -> None:
    """Refuses a set without episodes, and episodes without steps."""
    if lengths.size == 0:
        raise DemonstrationError("There are no episodes; at least one is needed.")
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise DemonstrationError(
            f"lengths is {lengths.dtype} of shape {lengths.shape}; expected one integer per episode."
        )
    if (lengths < 1).any():
        raise DemonstrationError(f"Episode {np.argmax(lengths < 1)} has no steps; leave it out.")


def _check_observations(observations: Ragged) -> Ragged:
    values = observations.values
    shape, integers = values.shape[1:], values.dtype.kind in INTEGERS
    kind = KIND_OF_RANK.get(len(shape))
    if kind is None or (kind == "grid" and 0 in shape):
        hint = "add a channel axis with frames[..., None]" if len(shape) == 2 else "reshape the frames"
        raise DemonstrationError(
            f"Each observation has shape {shape}, not a grid (H, W, C), a vector (D,) or an integer; {hint}."
        )
    if kind == "symbol":
        if not integers:
            raise DemonstrationError(
                f"Each observation is one {values.dtype} number; cast to integers if these are symbols, "
                "or reshape to (T+1, 1) if they are vectors of width 1."
            )
        refuse_where(
            observations,
            (values < 0) | (values > INT32_MAX),
            lambda i, t, v: f"Episode {i}, observation {t} is symbol {v}; number symbols from 0 to {INT32_MAX}.",
        )
        return _cast(observations, np.int32)
    if kind == "grid" and integers and values.min() >= 0 and values.max() <= 255:
        return _cast(observations, np.uint8)
    return _to_float32(observations, "observation")


def _check_discrete(actions: Ragged, num_actions: int | None) -> tuple[Ragged, int]:
    """Returns the actions and how many different ones there are: as many as given, or the largest plus 1."""
    values = actions.values
    if values.ndim != 1:
        raise DemonstrationError(
            f"Each action is {values.dtype} of shape {values.shape[1:]}; a discrete action is one integer: "
            "squeeze an axis of length 1, or cast to float if the actions are continuous."
        )
    limit = INT32_MAX if num_actions is None else whole_number("num_actions", num_actions, 1, INT32_MAX)
    negative = "negative: number actions from 0."
    beyond = f"not among the {limit} actions 0 to {limit - 1}; raise num_actions or renumber the actions."
    refuse_where(
        actions,
        (values < 0) | (values >= limit),
        lambda i, t, v: f"Episode {i}, step {t}: action {v} is {negative if v < 0 else beyond}",
    )
    return _cast(actions, np.int32), int(values.max()) + 1 if num_actions is None else limit


def _cast(ragged: Ragged, dtype: type) -> Ragged:
    return Ragged(ragged.values.astype(dtype, copy=False), ragged.counts)


def _to_float32(ragged: Ragged, what: str) -> Ragged:
    """Casts to float32; refuses what it does not hold: infinity, and small differences of large numbers."""
    values = ragged.values
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused below
        cast = _cast(ragged, np.float32)
    refuse_where(
        ragged,
        ~np.isfinite(cast.values).reshape(len(values), -1).all(axis=1),
        lambda i, t, _: (
            f"Episode {i}, {what} {t} holds NaN, infinity or a number too large for float32; "
            "repair it or leave the episode out."
        ),
    )
    if values.size and not np.can_cast(values.dtype, np.float32):
        _refuse_lost(values, cast.values, what)
    return cast


def _refuse_lost(values: np.ndarray, rounded: np.ndarray, what: str) -> None:
    """Refuses columns far from zero, not constant, whose differences float32 loses, such as times since 1970.

    All pixels of images are one column: of some of them, only the noise differs.
    """
    table = values if values.ndim == 2 else values.reshape(-1, 1)
    rounding = np.abs(table - rounded.reshape(table.shape)).max(axis=0)
    spread, largest = table.std(axis=0, dtype=np.float64), np.abs(table.astype(np.float64)).max(axis=0)
    lost = (LEAST_STEPS * rounding > spread) & (spread > CONSTANT * largest)
    if lost.any():
        column = int(np.argmax(lost))
        raise DemonstrationError(
            f"Column {column} of the {what}s cannot be kept in float32: around {table[:, column].mean():.3g}, a "
            f"standard deviation of {spread[column]:.2g} is lost in the rounding; subtract the mean (or the first "
            "value) before, or leave it out. Cast to float32 if the digits do not matter."
        )


def as_array(values: Any, what: str) -> np.ndarray:
    """Returns `values` as an array of numbers with at least one axis; refuses anything else."""
    # NumPy drops masks in silence where it makes plain arrays, also those of the rows of a list.
    rows = values if isinstance(values, list | tuple) else ()
    if any(isinstance(part, np.ma.MaskedArray) for part in (values, *rows)):
        raise DemonstrationError(
            f"{what} are a masked array, and masks are not kept; leave masked steps out, or fill them "
            "with filled(value)."
        )
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DemonstrationError(f"{what} are not one array; give all rows the same shape ({error}).") from error
    if array.dtype.kind not in INTEGERS + REALS:
        raise DemonstrationError(
            f"{what} have dtype {array.dtype}; convert them to booleans, integers or real numbers."
        )
    if array.ndim == 0:
        raise DemonstrationError(f"{what} are a single number; expected an array.")
    return array


def refuse_where(ragged: Ragged, bad: Bool[np.ndarray, " N"], message: Callable[[int, int, Any], str]) -> None:
    """Raises `message(episode, step, value)` about the first bad row, if there is one."""
    if bad.any():
        row = int(np.argmax(bad))
        raise DemonstrationError(message(*ragged.locate(row), ragged.values[row]))


def check_list(parts: Any, name: str, expected: int | None = None) -> None:
    """Refuses anything but a list with one entry per episode."""
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
        raise DemonstrationError(
            f"{name} is a single {type(parts).__name__}; expected a list with one array per episode: [{name}] for one "
            f"episode, list({name}) for a stack of them, list({name}.values()) for a dictionary."
        )
    if expected is not None and len(parts) != expected:
        raise DemonstrationError(f"{name} must have one entry for each of the {expected} episodes, not {len(parts)}.")


def check_counts(counts: Integer[np.ndarray, " B"], num_rows: int, what: str) -> None:
    """Refuses numbers of rows per episode that do not add up to the rows there are."""
    if counts.sum() != num_rows:
        raise DemonstrationError(f"The lengths of the episodes do not add up to the {num_rows} {what}.")


def check_fraction(fraction: Any, *, below_one: bool = False) -> None:
    """Refuses a fraction of the episodes that is not above 0 and at most 1, or below 1."""
    most = "below 1" if below_one else "at most 1"
    if not isinstance(fraction, int | float | np.floating) or not 0 < fraction <= 1 or (below_one and fraction == 1):
        raise DemonstrationError(f"fraction is {fraction!r}; it must be a number above 0 and {most}.")


def whole_number(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Returns `value` as an int; refuses what is no whole number from `low` to `high`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or number < low or (high is not None and number > high):
        bounds = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise DemonstrationError(f"{name} is {value!r}; use a whole number {bounds}.")
    return number
