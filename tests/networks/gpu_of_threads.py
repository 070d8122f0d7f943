"""A GPU of threads, for kernels whose programs wait for each other.

Pallas interprets programs one after the other, so that one which waits for a later one would wait forever. Here each is
a thread, arrays are NumPy's, in which all threads see at once what one writes, and Python acts what only a GPU has.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

PATIENCE = 20.0
"""Seconds of waiting for others, after which a launch counts as stuck."""


class Array:
    """In the GPU's memory, as kernels refer to it."""

    def __init__(self, values: np.ndarray):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __getitem__(self, index: Any) -> jax.Array:
        return jnp.array(self.values[_of_numpy(index)])

    def __setitem__(self, index: Any, value: jax.Array) -> None:
        self.values[_of_numpy(index)] = np.asarray(value)

    @property
    def at(self) -> "Places":
        """`array.at[index]`, to be read in a way of its own."""
        return Places(self)


class Places:
    """Of an array, by their index."""

    def __init__(self, array: Array):
        self.array = array

    def __getitem__(self, index: Any) -> tuple[Array, Any]:
        return self.array, index


class Gpu:
    """In place of `pallas_call`, and of those functions of Pallas's Triton module that the LSTM's kernels use.

    Args:
      num_slots: programs that run at a time; the next one starts when one of them ends.
      seed: of the order in which programs start.
    """

    def __init__(self, num_slots: int, seed: int):
        self.num_slots, self.random, self.lock = num_slots, random.Random(seed), threading.Lock()
        self.num_launches = self.num_waits = 0
        self.deadline = np.inf

    def pallas_call(
        self,
        kernel: Callable[..., None],
        *,
        out_shape: Sequence[jax.ShapeDtypeStruct],
        grid: tuple[int],
        input_output_aliases: dict[int, int],
        **_: Any,
    ) -> Callable[..., list[jax.Array]]:
        """What no program writes is not a number."""

        def launch(*inputs: jax.Array) -> list[jax.Array]:
            given = [Array(np.array(x)) for x in inputs]
            own = {out: given[source] for source, out in input_output_aliases.items()}
            outs = [own.get(i) or Array(np.full(out.shape, np.nan, out.dtype)) for i, out in enumerate(out_shape)]

            def program(_: int) -> None:
                with jax.disable_jit():  # which makes Python's loops of the kernel's
                    kernel(*given, *outs)

            self.num_launches, self.deadline = self.num_launches + 1, time.monotonic() + PATIENCE
            with ThreadPoolExecutor(self.num_slots) as slots:
                list(slots.map(program, self.random.sample(range(grid[0]), grid[0])))
            return [jnp.array(out.values) for out in outs]

        return launch

    def atomic_add(self, array: Array, index: Any, value: jax.Array) -> jax.Array:
        """What was there before."""
        with self.lock:
            before = array[index]
            array[index] = before + value
        return before

    def load(self, places: tuple[Array, Any], *, volatile: bool) -> jax.Array:
        """What is there by now."""
        assert volatile, "else a program sees what its multiprocessor has seen before"
        if time.monotonic() > self.deadline:
            raise TimeoutError("Programs wait for each other.")
        time.sleep(0)  # for others to go on
        array, index = places
        found = array[index]
        self.num_waits += bool(jnp.isinf(found).any())
        return found

    def approx_tanh(self, x: jax.Array) -> jax.Array:
        """Not as roughly as on a GPU."""
        return jnp.tanh(x)

    def CompilerParams(self, **_: Any) -> None:  # noqa: N802
        """Nothing is compiled."""


def _of_numpy(index: Any) -> Any:
    def plain(each: Any) -> Any:
        if isinstance(each, pl.Slice):
            return slice(int(each.start), int(each.start) + each.size)
        return each if isinstance(each, slice) else np.asarray(each)

    return tuple(plain(each) for each in index)
