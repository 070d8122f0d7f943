"""Makes expert demonstrations of worlds: data sets in memory, and fresh batches on the device.

Episode i of a seed has its own key, `fold_in(seed, i)`, and the same place in a chunk of fixed size, which one compiled
program draws. So the same seed gives the same bytes, whatever the number of demonstrations.
"""

import functools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, Shaped

from compile_il.data import UNKNOWN, Demonstrations
from compile_il.data.batch import Batch
from compile_il.data.labels import NO_SEGMENT
from compile_il.data.ragged import Ragged
from compile_il.worlds import make_world
from compile_il.worlds.world import ActingWorld, Episode, World, WorldError, check, check_whole, key_of

# Large enough to keep each device busy, small enough to stay in its cache; the bytes of a seed depend on them.
CPU_CHUNK, ACCELERATOR_CHUNK = 1024, 16384
CPU_FRAMES, ACCELERATOR_FRAMES = 4096, 131072
"""Number of frames drawn in one call, on CPUs and on accelerators."""
NUM_WORKERS = 3
"""Number of chunks made at once, as most of a chunk's work uses one core."""

SupervisionKind = Literal["none", "b", "z", "bz"]
"""Labels of fresh demonstrations: none, boundaries, codes, or both."""
_Chunk = tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def demonstrate(
    world: str | World,
    *,
    num_demos: int,
    num_tasks: int | None = None,
    seed: int = 0,
    max_steps: int | None = None,
    on_progress: Callable[[int], None] | None = None,
    **options: Any,
) -> Demonstrations:
    """Makes expert demonstrations on random levels, with their true segments.

    Args:
      world: the name of a world (`"grid-pickup"`, `"grid-visit"`, `"reacher"`, `"symbols"`), or a world itself.
      num_demos: number of demonstrations.
      num_tasks: length of each task list; the world's default (3) if None.
      seed: the same seed gives the same bytes on the same kind of device; the first demonstrations of a larger
        `num_demos` are those of a smaller one.
      max_steps: most steps of a demonstration; the world's default if None (grid 200, reacher 100).
      on_progress: called with the number of demonstrations made so far.
      **options: further options of the named world, such as `num_objects=8`.

    Returns:
      Demonstrations whose `truth` holds the boundaries and the task of each segment.
    """
    options = {
        name: v for name, v in {"num_tasks": num_tasks, "max_steps": max_steps, **options}.items() if v is not None
    }
    if isinstance(world, str):
        world = make_world(world, **options)
    elif options:
        raise WorldError(f"Options {', '.join(options)} go with the name of a world; set them on the world you pass.")
    check_whole("num_demos", num_demos)
    check(num_demos >= 1, f"num_demos is {num_demos}", "ask for at least 1")
    check_whole("seed", seed)
    chunks: list[tuple[np.ndarray, ...]] = []
    frames: np.ndarray | None = None
    for parts, *chunk in _make_chunks(world, num_demos, key_of(seed)):
        frames = _extend(frames, parts)
        chunks.append(tuple(chunk))
        if on_progress is not None:
            on_progress(sum(len(lengths) for _, lengths, *_ in chunks))
    actions, lengths, boundaries, num_inner, codes = map(np.concatenate, zip(*chunks, strict=True))
    demos = Demonstrations.from_packed(frames, actions, lengths, num_actions=world.num_actions)
    return demos.with_truth(boundaries=Ragged(boundaries, num_inner), codes=Ragged(codes, num_inner + 1))


def _make_chunks(world: World, num_demos: int, key: Array) -> Iterator[_Chunk]:
    """Makes all demonstrations in chunks, in order, a few at a time."""
    size = CPU_CHUNK if jax.default_backend() == "cpu" else ACCELERATOR_CHUNK

    def make(first: int) -> _Chunk:
        return _pack(world, draw_episodes(world, key, first, size), min(size, num_demos - first))

    ahead: deque[Future[_Chunk]] = deque()
    with ThreadPoolExecutor(NUM_WORKERS) as pool:
        for first in range(0, num_demos, size):
            ahead.append(pool.submit(make, first))
            if len(ahead) > NUM_WORKERS:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def _pack(world: World, episodes: Episode, num_demos: int) -> _Chunk:
    """Packs demonstrations end to end: frames in parts, actions, lengths, boundaries and how many, codes."""
    lengths = np.asarray(episodes.length)[:num_demos]
    actions = np.asarray(episodes.actions)[:num_demos]
    segment_index = np.asarray(episodes.segment_index)[:num_demos]
    tasks = np.asarray(episodes.level.tasks)[:num_demos]
    valid = np.arange(actions.shape[1]) < lengths[:, None]
    owner, before = np.nonzero(valid[:, 1:] & (segment_index[:, 1:] != segment_index[:, :-1]))
    num_boundaries = np.bincount(owner, minlength=num_demos)
    begun = np.arange(tasks.shape[1]) <= num_boundaries[:, None]
    frames = list(_draw_frames(world, episodes, lengths))
    return frames, actions[valid], lengths, before + 1, num_boundaries, tasks[begun]


def _draw_frames(world: World, episodes: Episode, lengths: np.ndarray) -> Iterator[np.ndarray]:
    """Draws the frames of all demonstrations of a chunk, end to end, in parts."""
    num_frames = lengths + 1
    owner = np.repeat(np.arange(len(lengths)), num_frames)
    time = np.arange(num_frames.sum()) - np.repeat(np.cumsum(num_frames) - num_frames, num_frames)
    size = CPU_FRAMES if jax.default_backend() == "cpu" else ACCELERATOR_FRAMES
    for first in range(0, len(owner), size):
        part = slice(first, first + size)
        # Short parts repeat frame (0, 0), so that every call has the same shape and compiles once.
        missing = size - len(owner[part])
        index = np.pad(owner[part], (0, missing)), np.pad(time[part], (0, missing))
        yield np.asarray(observe_frames(world, episodes, *index))[: size - missing]


def _extend(frames: np.ndarray | None, parts: list[np.ndarray]) -> np.ndarray:
    """Appends parts to the frames, whose array grows in place, so that memory never holds all frames twice."""
    grown = np.empty_like(parts[0][:0]) if frames is None else frames
    used = len(grown)
    grown.resize((used + sum(map(len, parts)), *grown.shape[1:]), refcheck=False)
    np.concatenate(parts, out=grown[used:])
    return grown


@functools.partial(jax.jit, static_argnames=("world", "num_episodes"))
def draw_episodes(world: World, key: Array, first: int | Int[Array, ""], num_episodes: int) -> Episode:
    """Draws episodes `first` to `first + num_episodes` of a key: an `Episode` with a leading batch axis."""
    indices = jnp.uint32(first) + jnp.arange(num_episodes, dtype=jnp.uint32)
    return jax.vmap(lambda index: world.episode(jax.random.fold_in(key, index)))(indices)


@functools.partial(jax.jit, static_argnames=("world", "num_levels"))
def draw_levels(world: ActingWorld, key: Array, num_levels: int) -> Any:
    """Draws the levels of the first demonstrations of a key."""
    return jax.vmap(lambda index: world.level(jax.random.fold_in(key, index)))(jnp.arange(num_levels, dtype=jnp.uint32))


@functools.partial(jax.jit, static_argnames="world")
def observe_frames(
    world: World, episodes: Episode, episode_index: Int[Array, " F"], time: Int[Array, " F"]
) -> Shaped[Array, "F ..."]:
    """Returns the observation at each given (episode, time)."""

    def observe(index: Int[Array, ""], t: Int[Array, ""]) -> Shaped[Array, "..."]:
        level = jax.tree.map(lambda leaf: leaf[index], episodes.level)
        return world.observe(level, jax.tree.map(lambda leaf: leaf[index, t], episodes.states))

    return jax.vmap(observe)(episode_index, time)


@functools.partial(jax.jit, static_argnames=("world", "num_frames", "max_length", "supervision"))
def draw_batch(
    world: World, keys: Key[Array, " B"], num_frames: int, max_length: int, supervision: SupervisionKind = "none"
) -> Batch:
    """Draws fresh demonstrations of a world, one for each key; those longer than `max_length` are left out.

    With supervision they come with labels: where segments start ("b"), the codes of the segments in order ("z"), or
    both. Demonstrations that were cut before their task list was done have none.
    """
    batch_size = keys.shape[0]
    episodes = jax.vmap(world.episode)(keys)
    ends = jnp.cumsum(episodes.length + 1)
    first = ends - episodes.length - 1
    rows = jnp.arange(num_frames)
    owner = jnp.minimum(jnp.searchsorted(ends, rows, side="right"), batch_size - 1)
    num_steps = episodes.actions.shape[1]
    time = jnp.minimum(rows - first[owner], num_steps)
    boundaries, segment_codes = _labels(episodes, max_length, supervision)
    return Batch(
        frames=observe_frames(world, episodes, owner, time),
        actions=episodes.actions[owner, jnp.minimum(time, num_steps - 1)],
        first=first,
        lengths=episodes.length,
        fits=(ends <= num_frames) & (episodes.length <= max_length),
        boundary_labels=boundaries,
        code_labels=jnp.full((batch_size, max_length), UNKNOWN, jnp.int32),
        segment_codes=segment_codes,
        rows=jnp.arange(batch_size),
    )


def _labels(
    episodes: Episode, max_length: int, supervision: SupervisionKind
) -> tuple[Int[Array, "B T"], Int[Array, "B listed"]]:
    index = episodes.segment_index[:, :max_length]
    index = jnp.pad(index, ((0, 0), (0, max_length - index.shape[1])), mode="edge")
    labelled = jnp.arange(max_length) < episodes.length[:, None]
    labelled &= episodes.success[:, None] & ("b" in supervision)
    starts = jnp.pad(index[:, 1:] != index[:, :-1], ((0, 0), (1, 0)))
    boundaries = jnp.where(labelled, starts, UNKNOWN).astype(jnp.int32)
    if "z" not in supervision:
        return boundaries, boundaries[:, :0]
    tasks = jnp.pad(episodes.level.tasks, ((0, 0), (0, 1)), constant_values=NO_SEGMENT)
    return boundaries, jnp.where(episodes.success[:, None], tasks, UNKNOWN).astype(jnp.int32)
