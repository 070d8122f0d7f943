"""Playing given actions in a world, for tests: batched for twins, one episode for film strips."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from compile_il.worlds.drawing import grid_text
from compile_il.worlds.grid import GridLevel, GridWorld
from tests.twins.grid_twin import TwinLevel, level_from_ascii


@functools.partial(jax.jit, static_argnames=("world", "num_levels"))
def draw_levels(world: Any, seed: int, num_levels: int) -> Any:
    return jax.vmap(world.level)(jax.random.split(jax.random.key(seed), num_levels))


@functools.partial(jax.jit, static_argnames="world")
def play(world: Any, levels: Any, actions: Any) -> tuple[Any, ...]:
    """Steps each level through its actions: T + 1 observations; T rewards and ends."""

    def play_one(level: Any, actions: Any) -> tuple[Any, ...]:
        def advance(state: Any, action: Any) -> tuple[Any, tuple[Any, ...]]:
            step = world.step(level, state, action)
            seen = world.observe(level, step.state)
            return step.state, (seen, step.reward, step.terminated, step.truncated)

        start = world.start(level)
        _, (seen, rewards, terminated, truncated) = jax.lax.scan(advance, start, actions)
        return jnp.concatenate([world.observe(level, start)[None], seen]), rewards, terminated, truncated

    return jax.vmap(play_one)(levels, actions)


def to_twin(level: Any, index: int) -> TwinLevel:
    """Level `index` of a batch, for the twin."""
    walls = np.asarray(level.walls)[index]
    size = walls.shape[0]
    cells, types = np.asarray(level.object_cells)[index], np.asarray(level.object_types)[index]
    objects = [(int(c) // size, int(c) % size, int(k)) for c, k in zip(cells, types, strict=True)]
    row, column = divmod(int(np.asarray(level.player)[index]), size)
    return TwinLevel(walls.tolist(), objects, (row, column), np.asarray(level.tasks)[index].tolist())


def from_ascii(picture: str, tasks: str) -> GridLevel:
    """A level from a picture (`#` wall, `@` player, `A` to `J` objects) and a word of tasks such as "AB"."""
    twin = level_from_ascii(picture.split(), [ord(letter) - ord("A") for letter in tasks])
    size = len(twin.walls)
    return GridLevel(
        walls=jnp.array(twin.walls),
        object_cells=jnp.array([row * size + column for row, column, _ in twin.objects], jnp.int32),
        object_types=jnp.array([kind for _, _, kind in twin.objects], jnp.int32),
        player=jnp.array(twin.player[0] * size + twin.player[1], jnp.int32),
        tasks=jnp.array(twin.tasks, jnp.int32),
    )


def film(world: GridWorld, level: GridLevel, actions: list[int]) -> tuple[str, list[str]]:
    """The pictures side by side as a film strip, and what each action brought: reward and end."""
    batch = jax.tree.map(lambda leaf: leaf[None], level)
    seen, rewards, terminated, truncated = play(world, batch, jnp.array([actions]))
    pictures = [grid_text(np.asarray(frame)).split() for frame in seen[0]]
    events = [
        f"{reward:g}" + (" end" if end else "") + (" cut" if cut else "")
        for reward, end, cut in zip(rewards[0], terminated[0], truncated[0], strict=True)
    ]
    return "\n".join(" ".join(row) for row in zip(*pictures, strict=True)), events
