"""Joins several sets of demonstrations into one."""

from collections.abc import Sequence

from compile_il.demos.checks import DemonstrationError
from compile_il.demos.labels import unknown_labels
from compile_il.demos.segment_codes import no_segment_codes
from compile_il.demos.storage import Storage
from compile_il.demos.words import space, truth


def join_storages(parts: Sequence[Storage]) -> Storage:
    """Joins sets of demonstrations, whose spaces must be equal; see `Demonstrations.concatenate`."""
    if len(parts) == 0:
        raise DemonstrationError("There is nothing to concatenate; give at least one set of demonstrations.")
    first = parts[0]
    for i, part in enumerate(parts):
        if space(part) != space(first):
            raise DemonstrationError(
                f"Part {i} has {space(part)}; part 0 has {space(first)}. "
                "Build all parts in one space, with the same num_actions."
            )
        if truth(part) != truth(first):
            raise DemonstrationError(
                f"Part {i}: {truth(part)}; part 0: {truth(first)}. Drop what not all parts know, using with_truth()."
            )
    if any(part.label_codes is not None for part in parts):
        parts = [part if part.label_codes is not None else _with_unknown_labels(part) for part in parts]
    if any(part.label_segments is not None for part in parts):
        parts = [part if part.label_segments is not None else _with_no_segment_codes(part) for part in parts]
    return parts[0].join(parts[1:])


def _with_unknown_labels(storage: Storage) -> Storage:
    unknown = unknown_labels(storage.actions.counts)
    return storage._replace(label_boundaries=unknown, label_codes=unknown)


def _with_no_segment_codes(storage: Storage) -> Storage:
    return storage._replace(label_segments=no_segment_codes(len(storage.actions.counts)))
