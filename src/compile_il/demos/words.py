"""Demonstrations in words, for people: what `repr` shows and what errors compare."""

import numpy as np

from compile_il.demos.labels import UNKNOWN
from compile_il.demos.storage import Storage


def describe(storage: Storage) -> str:
    """A summary, such as `2 episodes, 3..5 steps, vector of 4 float32, 8 discrete actions, truth known`."""
    lengths = storage.actions.counts
    shortest, longest = int(lengths.min()), int(lengths.max())
    steps = _count(longest, "step") if shortest == longest else f"{shortest}..{longest} steps"
    words = [_count(len(lengths), "episode"), steps, space(storage), truth(storage)]
    if storage.label_boundaries is not None and storage.label_codes is not None:
        told = (storage.label_boundaries.values != UNKNOWN) | (storage.label_codes.values != UNKNOWN)
        is_told = np.bincount(storage.actions.part_index[told], minlength=len(lengths)) > 0
        if storage.label_segments is not None:
            is_told |= storage.label_segments.counts > 0
        num_told = int(is_told.sum())
        words.append(f"labels in {_count(num_told, 'episode')}")
    return ", ".join(words)


def space(storage: Storage) -> str:
    """Kind, shape and dtype of observations and actions; words are equal where spaces are."""
    frames, actions = storage.observations.values, storage.actions.values
    match frames.shape[1:]:
        case ():
            observations = "symbols"
        case (0,):
            observations = "no states"
        case (width,):
            observations = f"vector of {width} {frames.dtype}"
        case (height, width, channels):
            observations = f"grid {height}x{width}x{channels} {frames.dtype}"
    if storage.num_actions is None:
        return f"{observations}, continuous actions of width {actions.shape[1]}"
    return f"{observations}, {_count(storage.num_actions, 'discrete action')}"


def truth(storage: Storage) -> str:
    """Words for what is known of the truth."""
    match storage.true_boundaries is not None, storage.true_codes is not None:
        case True, True:
            return "truth known"
        case True, False:
            return "true boundaries known"
        case False, True:
            return "true codes known"
    return "truth unknown"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
