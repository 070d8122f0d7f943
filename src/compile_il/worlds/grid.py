"""Implements the paper's grid world: walls, objects, a player, and lists of things to visit or to pick up.

Section "Multi-task environments" and appendix "Environment implementation details" of the paper; the rules in full,
with what the paper leaves open, are in `docs/worlds.md`. In `GridWindowWorld` the player sees only the cells around it,
which the paper leaves for future work; levels, rules and expert are the same.
"""

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PRNGKeyArray, UInt8

from compile_il.worlds import bitboard as boards
from compile_il.worlds.maze import draw_walls, lattice_dim
from compile_il.worlds.world import Episode, Reward, Step, check, check_options, expert_episode, task_reward

Kind = Literal["pickup", "visit"]

NUM_MOVES = 4
"""Number of directions: north, east, south, west, in the order of actions and of breaking ties."""
NUM_RL_STEPS = 50
"""Steps after which the paper cuts an episode of reinforcement learning."""
MAX_TYPES = 26
"""Largest number of object types: as many as there are letters to draw them with."""
ACTION_NAMES = ("north", "east", "south", "west", "pick north", "pick east", "pick south", "pick west")
OBJECT_NAMES = ("heart", "tree", "star", "gem", "moon", "bell", "drop", "flag", "key", "sun")


class GridLevel(NamedTuple):
    """Fixed part of an episode of the grid world; cells are row * size + column, tasks are object types."""

    walls: Bool[Array, "size size"]
    object_cells: Int[Array, " num_objects"]
    object_types: Int[Array, " num_objects"]
    player: Int[Array, ""]
    tasks: Int[Array, " num_tasks"]


class GridState(NamedTuple):
    """Changing part of an episode of the grid world."""

    player: Int[Array, ""]
    present: Bool[Array, " num_objects"]
    """Whether each object is still there, that is, has not been picked up."""
    task_index: Int[Array, ""]
    num_steps: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class GridWorld:
    """Options of the grid world; the defaults are the paper's."""

    kind: Kind = "pickup"
    """Whether objects are to be picked up or visited: "pickup" or "visit"."""
    num_tasks: int = 3
    """Number of tasks in a task list."""
    num_objects: int = 6
    """Number of objects in a level."""
    num_types: int = 10
    """Number of types that objects are drawn from."""
    distinct_types: bool = False
    """Whether no two objects of a level share a type."""
    size: int = 10
    """Number of cells along a side, the border included."""
    wall_rate: float = 0.2
    """Probability that an inner wall of the maze is kept."""
    max_steps: int = 200
    """Actions after which an episode is cut."""
    reward: Reward = "dense"
    """Whether each task done earns a reward of 1 ("dense"), or only the last one ("sparse")."""

    def __post_init__(self) -> None:
        check_options(self)
        check(self.kind in ("pickup", "visit"), f"kind is {self.kind!r}", "use 'pickup' or 'visit'")
        check(5 <= self.size <= boards.MAX_SIZE, f"size is {self.size}", f"use 5 to {boards.MAX_SIZE} cells a side")
        check(0.0 <= self.wall_rate <= 1.0, f"wall_rate is {self.wall_rate}", "use a probability, 0 to 1")
        check(2 <= self.num_types <= MAX_TYPES, f"num_types is {self.num_types}", f"use 2 to {MAX_TYPES}")
        # Recursive backtracking opens every lattice cell and a passage to each but the first.
        most, num_objects = 2 * lattice_dim(self.size) ** 2 - 2, self.num_objects
        words = f"a list of {self.num_tasks} pick-ups needs as many objects, and size {self.size} holds at most {most}"
        check(self.kind != "pickup" or self.num_tasks <= most, words, f"use num_tasks of at most {most}")
        check(1 <= num_objects <= most, f"num_objects is {num_objects}", f"size {self.size} holds 1 to {most}")
        check(
            not self.distinct_types or num_objects <= self.num_types,
            f"{num_objects} objects of distinct types cannot be drawn from {self.num_types} types",
            "use fewer objects or distinct_types=False",
        )
        if self.kind == "pickup":
            check(
                self.num_tasks <= num_objects,
                f"{self.num_tasks} pick-ups need as many objects, and a level has {num_objects}",
                f"use num_tasks <= {num_objects} or raise num_objects",
            )
        else:
            check(
                self.num_tasks == 1 or num_objects >= 2,
                f"{self.num_tasks} visits need two objects to go between, and a level has {num_objects}",
                "use num_objects >= 2",
            )

    @property
    def num_actions(self) -> int:
        """Number of actions: to move or to pick up, in four directions each."""
        return 2 * NUM_MOVES

    def level(self, key: PRNGKeyArray) -> GridLevel:
        """Draws a random level: a thinned maze, the player and the objects on connected cells, a task list."""
        wall_key, place_key, type_key, task_key = jax.random.split(key, 4)
        walls, anchor = draw_walls(wall_key, self.size, self.wall_rate)
        start = boards.from_indices(anchor[None], jnp.array([True]), self.size)
        reachable = boards.to_cells(boards.connected_to(start, boards.from_cells(~walls)))
        # The cells with the highest of independent draws, in that order: distinct, uniform, in random order.
        draws = jnp.pad(jax.random.uniform(place_key, (self.size - 2, self.size - 2), jnp.float32), 1)
        _, cells = jax.lax.top_k(jnp.where(reachable, draws, -1.0).reshape(-1), self.num_objects + 1)
        # Without the barrier, XLA on CPU selects once for the player and once more for the objects.
        cells = jax.lax.optimization_barrier(cells)
        types = self._draw_types(type_key)
        return GridLevel(walls, cells[1:], types, cells[0], self._draw_tasks(task_key, types))

    def _draw_types(self, key: PRNGKeyArray) -> Int[Array, " num_objects"]:
        if self.distinct_types:
            return jax.random.permutation(key, jnp.arange(self.num_types, dtype=jnp.int32))[: self.num_objects]
        types = jax.random.randint(key, (self.num_objects,), 0, self.num_types, jnp.int32)
        # A visit list needs two types; a level of one type alone comes up once in 100,000.
        uniform = jnp.all(types == types[0]) & (self.num_objects > 1)
        last = jnp.arange(self.num_objects) == self.num_objects - 1
        return jnp.where(uniform & last, types + 1, types) % self.num_types

    def _draw_tasks(self, key: PRNGKeyArray, types: Int[Array, " num_objects"]) -> Int[Array, " num_tasks"]:
        if self.kind == "pickup":
            # Objects stand in random order, so the first ones are an ordered choice without replacement.
            return types[: self.num_tasks]

        def draw(previous: Int[Array, ""], priority: Array) -> tuple[Int[Array, ""], Int[Array, ""]]:
            task = types[jnp.argmax(jnp.where(types != previous, priority, -1.0))]
            return task, task

        priorities = jax.random.uniform(key, (self.num_tasks, self.num_objects), jnp.float32)
        return jax.lax.scan(draw, jnp.array(-1, types.dtype), priorities)[1]

    def start(self, level: GridLevel) -> GridState:
        """Returns the first state of an episode: all objects in place, the first task ahead."""
        zero = jnp.array(0, jnp.int32)
        return GridState(level.player, jnp.ones((self.num_objects,), bool), zero, zero)

    def step(self, level: GridLevel, state: GridState, action: Int[Array, ""]) -> Step:
        """Takes one action, by the grid world's rules 8 to 12 in `docs/worlds.md`."""
        target = state.player + self._offset(action % NUM_MOVES)
        picks = action >= NUM_MOVES
        wall = level.walls.reshape(-1)[target]
        player = jnp.where(picks | wall, state.player, target)
        wanted = level.object_types == level.tasks[state.task_index]
        if self.kind == "pickup":
            taken = picks & state.present & (level.object_cells == target)
            done = jnp.any(taken & wanted)
            failed = jnp.any(taken & ~wanted)
        else:
            taken = jnp.zeros_like(state.present)
            done = jnp.any(wanted & (level.object_cells == player))
            failed = jnp.array(False)
        task_index = state.task_index + done
        num_steps = state.num_steps + 1
        finished = task_index == self.num_tasks
        terminated = finished | failed
        return Step(
            state=GridState(player, state.present & ~taken, task_index, num_steps),
            reward=task_reward(self.reward, done, finished),
            terminated=terminated,
            truncated=(num_steps >= self.max_steps) & ~terminated,
        )

    def observe(self, level: GridLevel, state: GridState) -> UInt8[Array, "size size channels"]:
        """Returns a channel of 0 and 1 for each object type, one for walls, one for the player."""
        channels = self._channels(jnp.arange(self.size * self.size), level.walls.reshape(-1), level, state)
        return channels.reshape(self.size, self.size, self.num_types + 2)

    def _channels(
        self, cells: Int[Array, " n"], walls: Bool[Array, " n"], level: GridLevel, state: GridState
    ) -> UInt8[Array, "n channels"]:
        """Returns the channels of `observe` at some cells, given which of them are walls."""
        # First what stands on each cell (at most one thing beside the player), then one comparison a channel.
        is_there = (cells[:, None] == level.object_cells) & state.present
        nothing, wall_channel, player_channel = self.num_types + 2, self.num_types, self.num_types + 1
        things = jnp.min(jnp.where(is_there, level.object_types, nothing), axis=1)
        things = jnp.where(walls, wall_channel, things).astype(jnp.uint8)
        channels = jnp.arange(self.num_types + 2, dtype=jnp.uint8)
        is_player = (cells == state.player)[:, None] & (channels == player_channel)
        return ((things[:, None] == channels) | is_player).astype(jnp.uint8)

    def plan(self, level: GridLevel) -> boards.Directions:
        """Returns the flow towards the nearest wanted object for each task, given what the expert took before."""
        open_cells = boards.from_cells(~level.walls)

        def plan_task(state: GridState, task_index: Int[Array, ""]) -> tuple[GridState, boards.Directions]:
            wanted = state.present & (level.object_types == level.tasks[task_index])
            flow = boards.flow_to(boards.from_indices(level.object_cells, wanted, self.size), open_cells)

            def follow(state: GridState) -> GridState:
                return self.step(level, state, self._follow(level, flow, state)).state

            return jax.lax.while_loop(lambda state: state.task_index == task_index, follow, state), flow

        return jax.lax.scan(plan_task, self.start(level), jnp.arange(self.num_tasks, dtype=jnp.int32))[1]

    def expert(self, level: GridLevel, plan: boards.Directions, state: GridState) -> Int[Array, ""]:
        """Follows the current task's flow; in a pick-up world the last move is the pick-up (rule 14)."""
        task_index = jnp.minimum(state.task_index, self.num_tasks - 1)
        return self._follow(level, jax.tree.map(lambda flows: flows[task_index], plan), state)

    def _follow(self, level: GridLevel, flow: boards.Directions, state: GridState) -> Int[Array, ""]:
        direction = flow.at(state.player)
        if self.kind == "visit":
            return direction
        wanted = state.present & (level.object_types == level.tasks[state.task_index])
        arrives = jnp.any(wanted & (level.object_cells == state.player + self._offset(direction)))
        return direction + NUM_MOVES * arrives

    def _offset(self, direction: Int[Array, ""]) -> Int[Array, ""]:
        # North, east, south, west as a step in flat cell indices; arithmetic beats a table look-up on every device.
        step = jnp.where(direction % 2 == 0, self.size, 1)
        return jnp.where((direction == 0) | (direction == 3), -step, step)

    def episode(self, key: PRNGKeyArray) -> Episode:
        """Draws a random level and its expert demonstration."""
        return expert_episode(self, key)


@dataclasses.dataclass(frozen=True)
class GridWindowWorld(GridWorld):
    """Options of the grid world seen through a window."""

    window: int = 5
    """Number of cells along a side of the window, with the player in the middle; odd."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # From any inner cell to the border and back: beyond it lies nothing to see.
        most = 2 * self.size - 3
        check(
            self.window % 2 == 1 and 3 <= self.window <= most,
            f"window is {self.window}",
            f"use an odd number of cells, 3 to {most}, so that the player has a middle to stand in",
        )

    def observe(self, level: GridLevel, state: GridState) -> UInt8[Array, "window window channels"]:
        """Returns the grid world's channels of the cells around the player; beyond the board are walls."""
        around = jnp.arange(self.window) - self.window // 2
        row, column = jnp.divmod(state.player, self.size)
        rows, columns = jnp.repeat(row + around, self.window), jnp.tile(column + around, self.window)
        on_board = (rows >= 0) & (rows < self.size) & (columns >= 0) & (columns < self.size)
        # No object and no player stands on cell -1.
        cells = jnp.where(on_board, rows * self.size + columns, -1)
        walls = ~on_board | level.walls.reshape(-1)[cells]
        channels = self._channels(cells, walls, level, state)
        return channels.reshape(self.window, self.window, self.num_types + 2)
