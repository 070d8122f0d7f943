"""Demonstrations as arrays of one shape, for programs that run on a whole batch at once.

Both records are named tuples, so JAX takes them as they are: `jax.tree.map(jnp.asarray, demos.padded())`.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, Shaped

from compile_il.demos.checks import DemonstrationError, whole_number
from compile_il.demos.storage import Storage


class Padded(NamedTuple):
    """A batch in which every episode has T steps. What lies beyond an episode's length is zero."""

    observations: Shaped[np.ndarray, "B T+1 ..."]
    actions: Shaped[np.ndarray, "B T ..."]
    valid: Bool[np.ndarray, "B T"]
    lengths: Int[np.ndarray, " B"]


class Packed(NamedTuple):
    """A batch whose frames lie end to end, so that a network runs on frames that exist, and on nothing else.

    `frames[frame_index]` are the observations of `Padded`, except that beyond its end an episode repeats its
    last observation, where `Padded` has zeros. Frames after those of the last episode are zero, and unused.
    """

    frames: Shaped[np.ndarray, "F ..."]
    frame_index: Int[np.ndarray, "B T+1"]
    actions: Shaped[np.ndarray, "B T ..."]
    valid: Bool[np.ndarray, "B T"]
    lengths: Int[np.ndarray, " B"]


def pad(storage: Storage, max_length: int | None) -> Padded:
    """Makes one batch padded with zeros; see `Demonstrations.padded`."""
    T = _check_size(max_length, int(storage.actions.counts.max()), "max_length", "steps of the longest episode")
    return Padded(
        observations=storage.observations.padded(T + 1),
        actions=storage.actions.padded(T),
        valid=np.arange(T) < storage.actions.counts[:, None],
        lengths=storage.actions.counts,
    )


def pack(storage: Storage, num_frames: int | None, max_length: int | None) -> Packed:
    """Makes one batch with frames end to end; see `Demonstrations.packed`."""
    lengths, frames = storage.actions.counts, storage.observations.values
    T = _check_size(max_length, int(lengths.max()), "max_length", "steps of the longest episode")
    F = _check_size(num_frames, len(frames), "num_frames", "frames of all episodes")
    if len(frames) < F:
        frames = np.concatenate([frames, np.zeros((F - len(frames), *frames.shape[1:]), frames.dtype)])
    first_frame = storage.observations.starts
    return Packed(
        frames=frames,
        frame_index=(first_frame[:, None] + np.minimum(np.arange(T + 1), lengths[:, None])).astype(np.int32),
        actions=storage.actions.padded(T),
        valid=np.arange(T) < lengths[:, None],
        lengths=lengths,
    )


def _check_size(asked: int | None, needed: int, name: str, what: str) -> int:
    size = needed if asked is None else whole_number(name, asked, 1)
    if size < needed:
        raise DemonstrationError(f"{name} is {size}, shorter than the {needed} {what}; raise it to at least {needed}.")
    return size
