"""The masked LSTM of the recognition model for a whole batch, as one GPU kernel each way instead of one for each step.

The recognition model multiplies hidden and cell state by a soft mask after each update, and learns through that mask.
No public fused LSTM does that (cuDNN knows only lengths), and a scan launches its small kernels anew for every step,
so that a GPU spends most of the time between them. Here one program takes a block of rows through all times: states
stay on the chip, and the recurrent weights stream from the L2 cache. What does not recur stays with XLA, as one large
product each: the projection of the inputs before, and the gradient of the recurrent weights after.

Written in Pallas for its Triton backend. Other devices, and sizes that do not suit it, get the scan instead.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, DTypeLike, Float

from compile_il.lstm import encode_projected

SMALLEST_DOT = 16
"""Triton multiplies blocks of at least so many rows and columns."""
LARGEST_HIDDEN = 256
"""Four gates of 16 rows take 64 registers of each thread at this size; more would spill."""
LARGEST_GROUP = 2048
"""Rows times hidden units whose gradients are taken at once; more would spill too."""


class Launch(NamedTuple):
    """How the kernels run; rows, chunks and warps come in powers of two."""

    rows: int = 16
    """Of the batch, for each program."""
    chunk_bytes: int = 64
    """Of the recurrent weights into each gate that are on the chip for each stage."""
    num_warps: int = 8
    num_stages: int = 3
    """Chunks of weights under way at once."""
    weight_dtype: DTypeLike = jnp.float32
    """Of both sides of the recurrent products; sums and states are float32 always."""
    precision: jax.lax.PrecisionLike = None
    """Of the recurrent products: on float32 and by default TensorFloat-32, as elsewhere on GPUs."""
    interpret: bool = False
    """Run the kernels without a GPU, slowly; set by the functions below."""


IN_HALF_PRECISION = Launch(chunk_bytes=128, num_stages=2, weight_dtype=jnp.bfloat16)
"""For recurrent weights in bfloat16; of several, the fastest on an H200."""


def encode_all(
    cell: eqx.nn.LSTMCell,
    projected: Float[Array, "B times gates"],
    mask: Float[Array, "B times"],
    *,
    launch: Launch | None = None,
    interpret: bool | None = None,
) -> Float[Array, "B times hidden"]:
    """`encode_projected` for each row of a batch, with gradients into inputs, mask and recurrent weights.

    Args:
      cell: the LSTM; under `vmap` each member may have its own.
      projected: inputs that have been brought to the gates, W x + b for each row and time.
      mask: what both states are multiplied with after each update.
      launch: how the kernels run.
      interpret: False is the kernel and True the same interpreted; None chooses the kernel on a GPU and else the scan.
    """
    if (interpret is None and jax.default_backend() != "gpu") or not suits(cell):
        return jax.vmap(encode_projected, (None, 0, 0))(cell, projected, mask)
    if launch is None:
        launch = IN_HALF_PRECISION if cell.weight_hh.dtype == jnp.bfloat16 else Launch()
    launch = launch._replace(interpret=bool(interpret))
    num_rows = projected.shape[0]
    padding = -num_rows % launch.rows
    projected = jnp.pad(projected, ((0, padding), (0, 0), (0, 0)))
    return _recur(cell.weight_hh, projected, jnp.pad(mask, ((0, padding), (0, 0))), launch)[:num_rows]


def suits(cell: eqx.nn.LSTMCell) -> bool:
    """Whether the kernels can run the cell."""
    size = cell.hidden_size
    return (
        SMALLEST_DOT <= size <= LARGEST_HIDDEN
        and size.bit_count() == 1
        and cell.weight_hh.dtype in (jnp.float32, jnp.bfloat16)
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _recur(
    weight: Float[Array, "gates hidden"],
    projected: Float[Array, "B times gates"],
    mask: Float[Array, "B times"],
    launch: Launch,
) -> Float[Array, "B times hidden"]:
    return _call(_forward, weight, (projected, mask), (weight.shape[1:],), launch)[0]


class _Saved(NamedTuple):
    """What the gradient needs of each step; gates are those after their nonlinearities."""

    weight: Float[Array, "gates hidden"]
    mask: Float[Array, "B times"]
    hidden: Float[Array, "B times hidden"]
    memory: Float[Array, "B times hidden"]
    gates: Float[Array, "B times gates"]


def _recur_and_save(
    weight: Float[Array, "gates hidden"],
    projected: Float[Array, "B times gates"],
    mask: Float[Array, "B times"],
    launch: Launch,
) -> tuple[Float[Array, "B times hidden"], _Saved]:
    num_gates, num_hidden = weight.shape
    widths = (num_hidden,), (num_hidden,), (num_gates,)
    hidden, memory, gates = _call(_forward, weight, (projected, mask), widths, launch)
    return hidden, _Saved(weight, mask, hidden, memory, gates)


def _recur_back(launch: Launch, saved: _Saved, d_hidden: Float[Array, "B times hidden"]) -> tuple[Array, Array, Array]:
    by_rows = saved.mask, saved.memory, saved.gates, d_hidden
    d_projected, d_mask = _call(_backward, saved.weight.T, by_rows, ((saved.weight.shape[0],), ()), launch)
    hidden_tm1 = jnp.pad(saved.hidden[:, :-1], ((0, 0), (1, 0), (0, 0)))
    d_weight = jnp.einsum("btg,bth->gh", d_projected, hidden_tm1, precision=launch.precision)
    return d_weight.astype(saved.weight.dtype), d_projected, d_mask


_recur.defvjp(_recur_and_save, _recur_back)


def _call(
    kernel: Any, weight: Array, by_rows: tuple[Array, ...], widths: tuple[tuple[int, ...], ...], launch: Launch
) -> list[Array]:
    """Runs a kernel on each block of rows, with all of the weights; gives for each width an array [B, times, width]."""
    shapes = [(*by_rows[0].shape[:2], *width) for width in widths]

    def block(shape: tuple[int, ...]) -> pl.BlockSpec:
        return pl.BlockSpec((launch.rows, *shape[1:]), lambda i: (i,) + (0,) * (len(shape) - 1))

    return pl.pallas_call(
        functools.partial(kernel, launch=launch),
        out_shape=[jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes],
        grid=(shapes[0][0] // launch.rows,),
        in_specs=[pl.BlockSpec(weight.shape, lambda i: (0, 0)), *(block(x.shape) for x in by_rows)],
        out_specs=[block(shape) for shape in shapes],
        compiler_params=None if launch.interpret else _compiler_params(launch),
        interpret=launch.interpret,
    )(weight.astype(launch.weight_dtype), *by_rows)


def _forward(weight: Any, projected: Any, mask: Any, hiddens: Any, *saved: Any, launch: Launch) -> None:
    """All steps of one block of rows; arguments are references to its part of the arrays."""
    num_times, num_hidden = hiddens.shape[1:]
    gates = [pl.ds(gate * num_hidden, num_hidden) for gate in range(4)]
    chunk = _chunk(launch, num_hidden)

    def update(t: Any, memory: Array, sums: Sequence[Array]) -> Array:
        enter, keep, leave = (jax.nn.sigmoid(sums[gate]) for gate in (0, 1, 3))
        new, open_ = _tanh(sums[2]), mask[:, t][:, None]
        memory = keep * memory + enter * new
        hiddens[:, t, :] = open_ * leave * _tanh(memory)
        memory = open_ * memory
        if saved:
            memories, activations = saved
            memories[:, t, :] = memory
            for gate, value in zip(gates, (enter, keep, new, leave), strict=True):
                activations[:, t, gate] = value
        _await_stores(launch)
        return memory

    def step(t: Array, memory: Array) -> Array:
        def add(k: Array, sums: list[Array]) -> list[Array]:
            some = pl.ds(k * chunk, chunk)
            past = hiddens[:, t - 1, some]
            return [
                _add_product(total, past, weight[gate, some], launch) for total, gate in zip(sums, gates, strict=True)
            ]

        sums = jax.lax.fori_loop(0, num_hidden // chunk, add, [projected[:, t, gate] for gate in gates])
        return update(t, memory, sums)

    nothing = jnp.zeros((launch.rows, num_hidden), jnp.float32)
    memory = update(0, nothing, [projected[:, 0, gate] for gate in gates])
    jax.lax.fori_loop(1, num_times, step, memory)


def _backward(
    transposed: Any,
    mask: Any,
    memories: Any,
    activations: Any,
    d_hiddens: Any,
    d_sums: Any,
    d_mask: Any,
    launch: Launch,
) -> None:
    """All steps of one block of rows, from the last to the first; `d_` is the gradient of what follows.

    With m the mask, C = f c_tm1 + i g and H = o tanh C the states before it: dH = m dh, dC = m dc + o (1 - tanh² C) dH,
    and dm = Σ dh H + dc C. Units are taken in groups, since all at once would not fit into the registers.
    """
    num_times, num_hidden = d_hiddens.shape[1:]
    chunk, width = 4 * _chunk(launch, num_hidden), min(num_hidden, max(SMALLEST_DOT, LARGEST_GROUP // launch.rows))
    groups = range(0, num_hidden, width)

    def back(t: Array, start: int, d_hidden: Array, d_memory: Array) -> tuple[Array, Array]:
        group, open_ = pl.ds(start, width), mask[:, t][:, None]
        gates = [pl.ds(gate * num_hidden + start, width) for gate in range(4)]
        enter, keep, new, leave = (activations[:, t, gate] for gate in gates)
        before = jnp.minimum(t, 1).astype(jnp.float32) * memories[:, jnp.maximum(t - 1, 0), group]
        memory = keep * before + enter * new
        shown, d_hidden = _tanh(memory), d_hidden + d_hiddens[:, t, group]
        d_open = jnp.sum(d_hidden * leave * shown + d_memory * memory, axis=1)
        d_hidden = open_ * d_hidden
        d_memory = open_ * d_memory + d_hidden * leave * (1 - shown * shown)
        d_sums[:, t, gates[0]] = d_memory * new * enter * (1 - enter)
        d_sums[:, t, gates[1]] = d_memory * before * keep * (1 - keep)
        d_sums[:, t, gates[2]] = d_memory * enter * (1 - new * new)
        d_sums[:, t, gates[3]] = d_hidden * shown * leave * (1 - leave)
        return d_memory * keep, d_open

    def step(s: Array, later: tuple[list[Array], list[Array]]) -> tuple[list[Array], list[Array]]:
        t = num_times - 1 - s
        done = [back(t, start, *states) for start, *states in zip(groups, *later, strict=True)]
        d_mask[:, t] = functools.reduce(jnp.add, [d_open for _, d_open in done])
        _await_stores(launch)

        def add(k: Array, totals: list[Array]) -> list[Array]:
            some = pl.ds(k * chunk, chunk)
            now = d_sums[:, t, some]
            weights = [transposed[pl.ds(start, width), some] for start in groups]
            return [_add_product(total, now, weight, launch) for total, weight in zip(totals, weights, strict=True)]

        return jax.lax.fori_loop(0, 4 * num_hidden // chunk, add, nothing), [d_memory for d_memory, _ in done]

    nothing = [jnp.zeros((launch.rows, width), jnp.float32) for _ in groups]
    jax.lax.fori_loop(0, num_times, step, (nothing, nothing))


def _chunk(launch: Launch, num_hidden: int) -> int:
    return min(num_hidden, max(SMALLEST_DOT, launch.chunk_bytes // jnp.dtype(launch.weight_dtype).itemsize))


def _tanh(x: Array) -> Array:
    """2 σ(2 x) - 1, since the tanh of Triton branches for each number; this is within 1e-7 of it."""
    return 2 * jax.nn.sigmoid(2 * x) - 1


def _add_product(total: Array, left: Array, right: Array, launch: Launch) -> Array:
    """Adds left rightᵀ: both lie along the axis that is summed over, as tensor cores like to read them."""
    along = (((1,), (1,)), ((), ()))
    left = left.astype(launch.weight_dtype)
    return total + jax.lax.dot_general(left, right, along, launch.precision, preferred_element_type=jnp.float32)


def _compiler_params(launch: Launch) -> Any:
    from jax.experimental.pallas import triton  # not in every build of JAX

    return triton.CompilerParams(num_warps=launch.num_warps, num_stages=launch.num_stages)


def _await_stores(launch: Launch) -> None:
    """Threads read in the next step what others stored in this one: a product needs all of a state, in chunks."""
    if not launch.interpret:
        from jax.experimental.pallas import triton  # not in every build of JAX

        triton.debug_barrier()
