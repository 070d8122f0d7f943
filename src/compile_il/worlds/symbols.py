"""Implements the toy task of the official code: runs of repeated symbols, demonstrations without states.

A demonstration is a list of `num_tasks` distinct symbols, each repeated 1 to `max_repeats` times; the symbols are the
actions. The official code's end symbol is left out, see `docs/worlds.md`.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from compile_il.worlds.world import Episode, check, check_options


class SymbolsLevel(NamedTuple):
    """Level of the symbols task: the symbol of each run, in order."""

    tasks: Int[Array, " num_tasks"]


class SymbolsState(NamedTuple):
    """State of the symbols task, which is not observed: the run that a step belongs to."""

    task_index: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class SymbolsWorld:
    """Options of the symbols task; the defaults are the official code's."""

    num_tasks: int = 3
    """Number of runs of repeated symbols in a demonstration."""
    num_symbols: int = 5
    """Number of symbols that those of the runs are drawn from, without replacement."""
    max_repeats: int = 4
    """Largest number of steps of a run; a run has 1 to that many."""
    max_steps: int = 200
    """Steps after which a demonstration is cut."""

    def __post_init__(self) -> None:
        check_options(self)
        check(self.max_repeats >= 1, f"max_repeats is {self.max_repeats}", "use at least 1")
        check(
            self.num_tasks <= self.num_symbols,
            f"{self.num_tasks} runs of distinct symbols cannot be drawn from {self.num_symbols}",
            f"use num_tasks <= {self.num_symbols} or raise num_symbols",
        )

    @property
    def num_actions(self) -> int:
        """Number of actions: one for each symbol."""
        return self.num_symbols

    def observe(self, level: SymbolsLevel, state: SymbolsState) -> Float[Array, "0"]:
        """Returns a vector of width zero."""
        return jnp.zeros((0,), jnp.float32)

    def episode(self, key: PRNGKeyArray) -> Episode:
        """Draws a demonstration: runs of distinct symbols."""
        symbol_key, repeat_key = jax.random.split(key)
        tasks = jax.random.permutation(symbol_key, jnp.arange(self.num_symbols, dtype=jnp.int32))[: self.num_tasks]
        ends = jnp.cumsum(jax.random.randint(repeat_key, (self.num_tasks,), 1, self.max_repeats + 1, jnp.int32))
        num_steps = min(self.max_steps, self.num_tasks * self.max_repeats)
        run = jnp.searchsorted(ends, jnp.arange(num_steps + 1), side="right").astype(jnp.int32)
        segment_index = jnp.minimum(run, self.num_tasks - 1)[:-1]
        return Episode(
            level=SymbolsLevel(tasks),
            states=SymbolsState(run),
            actions=tasks[segment_index],
            segment_index=segment_index,
            length=jnp.minimum(ends[-1], num_steps),
            success=ends[-1] <= num_steps,
        )
