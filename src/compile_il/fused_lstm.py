"""The masked LSTM of the recognition model for a whole batch, as one GPU kernel each way instead of one for each step.

The recognition model multiplies hidden and cell state by a soft mask after each update, and learns through that mask.
No public fused LSTM does that (cuDNN knows only lengths), and a scan launches its small kernels anew for every step,
so that a GPU spends most of the time between them. What does not recur stays with XLA, as one large product each: the
projection of the inputs before, and the gradient of the recurrent weights after.

The kernels themselves are in `lstm_kernels`. Other devices, and sizes that do not suit them, get the scan instead.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, DTypeLike, Float, Int

from compile_il.lstm import masked_passes_by_scan
from compile_il.lstm_kernels import SMALLEST_DOT, Launch, backward, compiler_params, forward

LARGEST_HIDDEN = 256
"""Most hidden units that the kernels run, the most that were tried; more would need larger teams."""
ROWS = 16, 32, 64
"""Numbers of rows of the batch that a team may take; more would spill registers."""
NUM_PROGRAMS = 198
"""Most programs of a launch, unless even the largest blocks of rows take more. An H100 or H200 runs 132 at a time, one
on each multiprocessor for want of shared memory; others find room when the first teams stop."""
WEIGHT_BYTES = 128 * 1024
"""Bytes of recurrent weights that a program keeps in its shared memory, which is 227 KiB."""


def masked_passes(
    cell: eqx.nn.LSTMCell,
    projected: Float[Array, "B times gates"],
    mask: Float[Array, "B times"],
    num_real: Int[Array, " B"],
    *,
    launch: Launch | None = None,
    interpret: bool | None = None,
) -> Float[Array, "B times hidden"]:
    """As `lstm.masked_passes_by_scan`, with one kernel each way where device and sizes suit it.

    Gradients go into inputs, mask and recurrent weights.

    Args:
      cell: the LSTM; under `vmap` each member may have its own.
      projected: inputs that have been brought to the gates, W x + b for each row and time.
      mask: what both states are multiplied with after each update.
      num_real: how many times of each row are real. Encodings of the others are finite and mean nothing, and their
        gradients must be zero.
      launch: how the kernels run.
      interpret: False is the kernel and True the same interpreted; None chooses the kernel on a Hopper GPU and else the
        scan.
    """
    if (interpret is None and not on_hopper()) or not suits(cell):
        return masked_passes_by_scan(cell, projected, mask)
    launch = Launch(weight_dtype=cell.weight_hh.dtype) if launch is None else launch
    num_bytes = cell.weight_hh.size * jnp.dtype(launch.weight_dtype).itemsize
    team = launch.team or (1 if interpret else max(1, num_bytes // WEIGHT_BYTES))
    return _recur(cell.weight_hh, projected, mask, num_real, launch._replace(team=team, interpret=bool(interpret)))


def on_hopper() -> bool:
    """Whether the kernels can run on the default device, a Hopper GPU."""
    return jax.default_backend() == "gpu" and str(jax.devices()[0].compute_capability).startswith("9.")


def suits(cell: eqx.nn.LSTMCell) -> bool:
    """Whether the kernels can run an LSTM cell of this size and type."""
    size = cell.hidden_size
    return (
        SMALLEST_DOT <= size <= LARGEST_HIDDEN
        and size.bit_count() == 1
        and cell.weight_hh.dtype in (jnp.float32, jnp.bfloat16)
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _recur(
    weight: Float[Array, "gates hidden"],
    projected: Float[Array, "B times gates"],
    mask: Float[Array, "B times"],
    num_real: Int[Array, " B"],
    launch: Launch,
) -> Float[Array, "B times hidden"]:
    outs = [_Out(weight.shape[1], launch.weight_dtype)]
    return _call(forward, weight, (num_real, projected, mask), outs, launch)[0].astype(projected.dtype)


class _Saved(NamedTuple):
    """What the gradient needs of each step; gates are those after their nonlinearities."""

    weight: Float[Array, "gates hidden"]
    num_real: Int[Array, " B"]
    mask: Float[Array, "B times"]
    hidden: Float[Array, "B times hidden"]
    memory: Float[Array, "B times hidden"]
    gates: Float[Array, "B times gates"]


def _recur_and_save(
    weight: Float[Array, "gates hidden"],
    projected: Float[Array, "B times gates"],
    mask: Float[Array, "B times"],
    num_real: Int[Array, " B"],
    launch: Launch,
) -> tuple[Float[Array, "B times hidden"], _Saved]:
    num_gates, num_hidden = weight.shape
    outs = [_Out(num_hidden, launch.weight_dtype), _Out(num_hidden), _Out(num_gates, launch.weight_dtype)]
    hidden, memory, gates = _call(forward, weight, (num_real, projected, mask), outs, launch)
    return hidden.astype(projected.dtype), _Saved(weight, num_real, mask, hidden, memory, gates)


def _recur_back(
    launch: Launch, saved: _Saved, d_hidden: Float[Array, "B times hidden"]
) -> tuple[Array, Array, Array, None]:
    by_rows = saved.num_real, saved.mask, saved.memory, saved.gates, d_hidden
    outs = [_Out(saved.gates.shape[2], launch.weight_dtype), _Out(launch.team)]
    d_sums, d_mask = _call(backward, saved.weight.T, by_rows, outs, launch)
    hidden_tm1 = jnp.pad(saved.hidden[:, :-1], ((0, 0), (1, 0), (0, 0)))
    d_weight = jnp.einsum(
        "btg,bth->gh", d_sums, hidden_tm1, precision=launch.precision, preferred_element_type=jnp.float32
    )
    # What comes out has the type of what went in: inputs and encodings share theirs.
    return d_weight.astype(saved.weight.dtype), d_sums.astype(d_hidden.dtype), d_mask.sum(axis=2), None


_recur.defvjp(_recur_and_save, _recur_back)


class _Out(NamedTuple):
    """Width and type of an array [B, times, width] that a kernel gives."""

    width: int
    dtype: DTypeLike = jnp.float32


def _call(kernel: Any, weight: Array, by_rows: tuple[Array, ...], outs: Sequence[_Out], launch: Launch) -> list[Array]:
    """Runs a kernel, with programs that await each other's part of the first array that it gives.

    All members of a `vmap` share one launch and its tickets, and their number is known when rows are dealt to teams.
    """

    @jax.custom_batching.custom_vmap
    def run(*arrays: Array) -> list[Array]:
        return _run(kernel, arrays, outs, launch)

    @run.def_vmap
    def run_members(num_members: int, batched: Sequence[bool], *arrays: Array) -> tuple[list[Array], list[bool]]:
        own = [
            x if has else jnp.broadcast_to(x, (num_members, *x.shape)) for x, has in zip(arrays, batched, strict=True)
        ]
        found = run(*(x.reshape(-1, *x.shape[2:]) for x in own))
        return [x.reshape(num_members, -1, *x.shape[1:]) for x in found], [True] * len(outs)

    return [x[0] for x in run(*(x[None] for x in (weight, *by_rows)))]


def _run(kernel: Any, arrays: tuple[Array, ...], outs: Sequence[_Out], launch: Launch) -> list[Array]:
    """One launch for all cells; arrays are weights [cells, ...] and then what has rows [cells, B, ...].

    The first of these are the numbers of real times. A kernel is given the rows in the order of these, and the largest
    of them in each block of rows.
    """
    weight, *by_rows = arrays
    num_cells, num_rows, num_times = by_rows[1].shape[:3]
    launch = launch._replace(rows=launch.rows or _fewest_rows(num_cells, num_rows, launch.team))
    padding = -num_rows % launch.rows
    num_real, *by_rows = [jnp.pad(x, ((0, 0), (0, padding), *((0, 0),) * (x.ndim - 2))) for x in by_rows]
    order = jnp.argsort(num_real, axis=1, descending=True).astype(jnp.int32)
    longest = jnp.take_along_axis(num_real, order[:, :: launch.rows], axis=1)
    spans = jnp.clip(longest, 1, num_times).astype(jnp.int32)
    shapes = [jax.ShapeDtypeStruct((num_cells, num_rows + padding, num_times, out.width), out.dtype) for out in outs]
    if max(math.prod(shape.shape) for shape in shapes) >= 2**31:  # where the kernels' numbers end
        raise ValueError(
            f"{num_cells} x {num_rows} rows of {num_times} times are too many for one launch: make batch_size smaller."
        )
    awaited, tickets = jnp.full_like(shapes[0], jnp.inf), jnp.zeros((1,), jnp.int32)
    inputs = weight.astype(launch.weight_dtype), order, spans, *by_rows, awaited, tickets
    _, *found = pl.pallas_call(
        functools.partial(kernel, launch=launch),
        out_shape=[jax.ShapeDtypeStruct(tickets.shape, tickets.dtype), *shapes],
        grid=(num_cells * shapes[0].shape[1] // launch.rows * launch.team,),
        input_output_aliases={len(inputs) - 1: 0, len(inputs) - 2: 1},
        compiler_params=None if launch.interpret else compiler_params(launch),
        interpret=launch.interpret,
    )(*inputs)
    return [x[:, :num_rows] for x in found]


def _fewest_rows(num_cells: int, num_rows: int, team: int) -> int:
    """Fewest rows for each team with which programs are not too many, since fewer rows take less time for each step."""
    return min((rows for rows in ROWS if -(-num_rows // rows) * num_cells * team <= NUM_PROGRAMS), default=max(ROWS))
