"""Runs the masked LSTM for a whole batch as one GPU kernel each way, on Hopper GPUs; `networks.lstm` chooses it.

No public fused LSTM multiplies its states by a soft mask and learns through it (cuDNN has lengths only), and a scan
launches small kernels anew for every step. What does not recur stays with XLA, as one large product each: the
projection of the inputs before, and the gradient of the recurrent weights after.

A team of programs takes a block of rows through all times. Each has a share of the hidden units, whose recurrent
weights it loads once and keeps in shared memory, where those of all units would not fit. At every step it needs what
the others just computed for their units: it reads the arrays that the kernel returns, in the L2 cache. They begin as
infinity, which is never stored, and a program that reads infinity reads again, so no flags and no fences are needed.

Programs that wait for each other must run together, and a GPU promises no order. So a program draws a ticket when it
starts, and tickets make the teams: of those that have started, all but the last few are in full teams, which end and
make room. A GPU that runs as many programs as a team has cannot get stuck. A team stops where the longest of its rows
ends; rows are dealt from the longest to the shortest, so that most teams stop early.

Written in Pallas for its Triton backend; where JAX lacks that, this module cannot be imported and LSTMs run by scan.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas.triton import CompilerParams, approx_tanh, atomic_add, load
from jaxtyping import Array, DTypeLike, Float, Int

SMALLEST_DOT = 16
"""Fewest rows and columns of the blocks that Triton multiplies."""
HOPPER_DOT = 64
"""Fewest rows on the left of Hopper's own products."""
PART_BYTES = 32 * 1024
"""Bytes that a program reads of the others at once on the way back; more would spill registers."""
LARGEST_HIDDEN = 256
"""Most hidden units that were tried; more would need larger teams."""
ROWS = 16, 32, 64
"""Numbers of rows of the batch that a team may take; more would spill registers."""
NUM_PROGRAMS = 198
"""Most programs of a launch, unless even the largest blocks of rows take more. An H100 or H200 runs 132 at a time, one
on each multiprocessor for want of shared memory; others find room when the first teams stop."""
WEIGHT_BYTES = 128 * 1024
"""Bytes of recurrent weights that a program keeps in its shared memory, which is 227 KiB."""
LARGEST = float(jnp.finfo(jnp.bfloat16).max)
"""Largest number stored, in place of all above it: infinity marks what has not been stored."""


class Launch(NamedTuple):
    """Settings of a launch; rows and team are powers of two, and 0 leaves them to `masked_passes_by_kernel`."""

    rows: int = 0
    """Rows of the batch for each team."""
    team: int = 0
    """Number of programs in a team, which share the hidden units of the same rows."""
    weight_dtype: DTypeLike = jnp.float32
    """Type of both sides of recurrent products and of what is stored of them; memory and sums are always float32."""
    precision: jax.lax.PrecisionLike = None
    """Precision of the recurrent products: on float32 and by default TensorFloat-32, as elsewhere on GPUs."""
    interpret: bool = False
    """Whether to run without a GPU, one program after the other: only teams of one, unless there is but one time."""


def suits(cell: eqx.nn.LSTMCell) -> bool:
    """Returns whether the kernels can run an LSTM cell of this size and type."""
    size, dtype = cell.hidden_size, cell.weight_hh.dtype
    return SMALLEST_DOT <= size <= LARGEST_HIDDEN and size.bit_count() == 1 and dtype in (jnp.float32, jnp.bfloat16)


def masked_passes_by_kernel(
    cell: eqx.nn.LSTMCell,
    projected: Float[Array, "B times gates"],
    mask: Float[Array, "B times"],
    num_real: Int[Array, " B"],
    launch: Launch | None = None,
) -> Float[Array, "B times hidden"]:
    """Computes `lstm.masked_passes` of a cell that `suits`; gradients go into inputs, mask and recurrent weights."""
    launch = Launch(weight_dtype=cell.weight_hh.dtype) if launch is None else launch
    num_bytes = cell.weight_hh.size * jnp.dtype(launch.weight_dtype).itemsize
    team = launch.team or (1 if launch.interpret else max(1, num_bytes // WEIGHT_BYTES))
    return _recur(cell.weight_hh, projected, mask, num_real, launch._replace(team=team))


@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _recur(weight: Array, projected: Array, mask: Array, num_real: Array, launch: Launch) -> Array:
    outs = [(weight.shape[1], launch.weight_dtype)]
    return _call(_forward, weight, (num_real, projected, mask), outs, launch)[0].astype(projected.dtype)


def _recur_and_save(
    weight: Array, projected: Array, mask: Array, num_real: Array, launch: Launch
) -> tuple[Array, tuple[Array, ...]]:
    num_gates, num_hidden = weight.shape
    outs = [(num_hidden, launch.weight_dtype), (num_hidden, jnp.float32), (num_gates, launch.weight_dtype)]
    hidden, memory, gates = _call(_forward, weight, (num_real, projected, mask), outs, launch)
    return hidden.astype(projected.dtype), (weight, num_real, mask, hidden, memory, gates)


def _recur_back(launch: Launch, saved: tuple[Array, ...], d_hidden: Array) -> tuple[Array, Array, Array, None]:
    weight, num_real, mask, hidden, memory, gates = saved
    outs = [(gates.shape[2], launch.weight_dtype), (launch.team, jnp.float32)]
    d_sums, d_mask = _call(_backward, weight.T, (num_real, mask, memory, gates, d_hidden), outs, launch)
    hidden_tm1 = jnp.pad(hidden[:, :-1], ((0, 0), (1, 0), (0, 0)))
    d_weight = jnp.einsum(
        "btg,bth->gh", d_sums, hidden_tm1, precision=launch.precision, preferred_element_type=jnp.float32
    )
    # What comes out has the type of what went in: inputs and encodings share theirs.
    return d_weight.astype(weight.dtype), d_sums.astype(d_hidden.dtype), d_mask.sum(axis=2), None


_recur.defvjp(_recur_and_save, _recur_back)


def _call(kernel: Any, weight: Array, by_rows: tuple[Array, ...], outs: list[Any], launch: Launch) -> list[Array]:
    """Runs a kernel that gives arrays [B, times, width], each with a width and a type in `outs`.

    Programs await each other's part of the first one. All members of a `vmap` share one launch and its tickets, and
    their number is known when rows are dealt to teams.
    """

    @jax.custom_batching.custom_vmap
    def run(*arrays: Array) -> list[Array]:
        return _run(kernel, arrays, outs, launch)

    @run.def_vmap
    def run_members(num_members: int, batched: Sequence[bool], *arrays: Array) -> tuple[list[Array], list[bool]]:
        pairs = zip(arrays, batched, strict=True)
        own = [x if has else jnp.broadcast_to(x, (num_members, *x.shape)) for x, has in pairs]
        found = run(*(x.reshape(-1, *x.shape[2:]) for x in own))
        return [x.reshape(num_members, -1, *x.shape[1:]) for x in found], [True] * len(outs)

    return [x[0] for x in run(*(x[None] for x in (weight, *by_rows)))]


def _run(kernel: Any, arrays: tuple[Array, ...], outs: list[Any], launch: Launch) -> list[Array]:
    """Launches a kernel once for all cells; arrays are weights [cells, ...] and then what has rows [cells, B, ...].

    The first of these are the numbers of real times. A kernel is given the rows in their order, and the largest of
    them in each block of rows.
    """
    weight, *by_rows = arrays
    num_cells, num_rows, num_times = by_rows[1].shape[:3]
    # Fewer rows make faster steps, and more programs.
    few_enough = (rows for rows in ROWS if -(-num_rows // rows) * num_cells * launch.team <= NUM_PROGRAMS)
    launch = launch._replace(rows=launch.rows or min(few_enough, default=max(ROWS)))
    padding = -num_rows % launch.rows
    num_real, *by_rows = [jnp.pad(x, ((0, 0), (0, padding), *((0, 0),) * (x.ndim - 2))) for x in by_rows]
    order = jnp.argsort(num_real, axis=1, descending=True).astype(jnp.int32)
    longest = jnp.take_along_axis(num_real, order[:, :: launch.rows], axis=1)
    spans = jnp.clip(longest, 1, num_times).astype(jnp.int32)
    shapes = [jax.ShapeDtypeStruct((num_cells, num_rows + padding, num_times, width), dtype) for width, dtype in outs]
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
        compiler_params=None
        if launch.interpret
        else CompilerParams(num_warps=4 if launch.rows < 32 else 8, num_stages=1),
        interpret=launch.interpret,
    )(*inputs)
    return [x[:, :num_rows] for x in found]


class _Share(NamedTuple):
    """Part of the arrays that one program computes."""

    number: Array
    """Index of the program within its team."""
    at: tuple[Any, Any]
    """Indices of the cell and of the rows."""
    num_times: Array
    """Number of times up to the end of the longest row; at least one."""
    units: Any
    gates: list[Any]
    """Slices of the four gates of the program's units."""
    units_first: bool
    """Whether products have their units on the left, where Hopper wants more rows than there are."""

    def turn(self, x: Array) -> Array:
        """Transposes a matrix of an array, where rows come first, for products, or back."""
        return x.T if self.units_first else x


def _draw_share(tickets: Any, order: Any, spans: Any, num_hidden: int, launch: Launch) -> _Share:
    ticket = pl.program_id(0) if launch.interpret else atomic_add(tickets, (0,), jnp.int32(1))
    team, number = ticket // launch.team, ticket % launch.team
    # The first blocks of all cells come before their second ones: what takes longest begins first.
    num_cells, width = spans.shape[0], num_hidden // launch.team
    cell, block = team % num_cells, team // num_cells
    return _Share(
        number=number,
        at=(cell, order[cell, pl.ds(block * launch.rows, launch.rows)]),
        num_times=spans[cell, block],
        units=pl.ds(number * width, width),
        gates=[pl.ds(gate * num_hidden + number * width, width) for gate in range(4)],
        units_first=launch.rows < HOPPER_DOT <= width,
    )


def _forward(*arrays: Any, launch: Launch) -> None:
    """Runs all steps for one block of rows and one share of the units."""
    weight, order, spans, projected, mask, _, _, tickets, hiddens, *saved = arrays
    num_times, num_hidden = hiddens.shape[2:]
    share = _draw_share(tickets, order, spans, num_hidden, launch)
    at, units, gates, turn = share.at, share.units, share.gates, share.turn
    weights = [weight[at[0], gate, :] for gate in gates]

    def update(t: Any, memory: Array, open_: Array, sums: Sequence[Array]) -> Array:
        enter, keep, leave = (_sigmoid(sums[gate], launch) for gate in (0, 1, 3))
        new, open_ = _tanh(sums[2], launch), turn(open_[:, None])
        memory = keep * memory + enter * new
        _store(hiddens, (*at, t, units), turn(open_ * leave * _tanh(memory, launch)))
        memory = open_ * memory
        if saved:
            memories, activations = saved
            memories[(*at, t, units)] = turn(memory)
            for gate, value in zip(gates, (enter, keep, new, leave), strict=True):
                activations[(*at, t, gate)] = turn(value.astype(activations.dtype))
        return memory

    def step(t: Array, memory: Array) -> Array:
        inputs, open_ = [projected[(*at, t, gate)] for gate in gates], mask[(*at, t)]
        past = (*at, t - 1, slice(None))
        hidden = _await(_read(hiddens, past, launch), hiddens, past, launch)
        inputs = [turn(_unless_first(t, x)).astype(jnp.float32) for x in inputs]
        sums = [_add_product(x, hidden, own, share, launch) for x, own in zip(inputs, weights, strict=True)]
        return update(t, memory, open_, sums)

    inputs = [turn(projected[(*at, 0, gate)]).astype(jnp.float32) for gate in gates]
    memory = update(0, jnp.zeros_like(inputs[0]), mask[(*at, 0)], inputs)
    memory = jax.lax.fori_loop(1, share.num_times, step, memory)
    blank = turn(jnp.zeros_like(memory))
    jax.lax.fori_loop(share.num_times, num_times, lambda t, _: _store(hiddens, (*at, t, units), blank), None)


def _backward(*arrays: Any, launch: Launch) -> None:
    """Runs the gradient from the last step to the first; `d_` is the gradient of what follows.

    With m the mask, C = f c_tm1 + i g and H = o tanh C the states before it: dH = m dh, dC = m dc + o (1 - tanh² C) dH,
    and dm = Σ dh H + dc C.
    """
    transposed, order, spans, mask, memories, activations, d_hiddens, _, _, tickets, d_sums, d_mask = arrays
    num_times, num_hidden = d_hiddens.shape[2:]
    share = _draw_share(tickets, order, spans, num_hidden, launch)
    at, units, gates, turn = share.at, share.units, share.gates, share.turn
    width = min(4 * num_hidden, max(SMALLEST_DOT, PART_BYTES // (launch.rows * d_sums.dtype.itemsize)))
    parts = [pl.ds(start, width) for start in range(0, 4 * num_hidden, width)]
    weights = [transposed[at[0], units, part] for part in parts]

    def read(t: Any) -> list[Array]:
        before, open_ = memories[(*at, jnp.maximum(t - 1, 0), units)], mask[(*at, t)][:, None]
        return [d_hiddens[(*at, t, units)], open_, before, *(activations[(*at, t, gate)] for gate in gates)]

    def prepare(t: Any, inputs: Sequence[Array]) -> list[Array]:
        open_, before, enter, keep, new, leave = (turn(x).astype(jnp.float32) for x in inputs)
        before = _unless_first(t, before)
        memory = keep * before + enter * new
        return [open_, before, enter, keep, new, leave, memory, _tanh(memory, launch)]

    def back(t: Any, d_hidden: Array, d_memory: Array, inputs: Sequence[Array]) -> Array:
        open_, before, enter, keep, new, leave, memory, shown = inputs
        d_open, d_hidden = d_hidden * leave * shown + d_memory * memory, open_ * d_hidden
        d_memory = open_ * d_memory + d_hidden * leave * (1 - shown * shown)
        d_gates = (
            d_memory * new * enter * (1 - enter),
            d_memory * before * keep * (1 - keep),
            d_memory * enter * (1 - new * new),
            d_hidden * shown * leave * (1 - leave),
        )
        for gate, value in zip(gates, d_gates, strict=True):
            _store(d_sums, (*at, t, gate), turn(value))
        d_mask[(*at, t, share.number)] = jnp.sum(turn(d_open), axis=1)
        return d_memory * keep

    def step(s: Array, d_memory: Array) -> Array:
        t = share.num_times - 1 - s
        places = [(*at, t + 1, part) for part in parts]
        direct, *inputs = read(t)
        d_hidden, seen = jnp.zeros_like(d_memory), _read(d_sums, places[0], launch)
        inputs = prepare(t, inputs)
        for i, own in enumerate(weights):
            now = seen
            if i + 1 < len(parts):
                seen = _read(d_sums, places[i + 1], launch)  # on its way during the product
            d_hidden = _add_product(d_hidden, _await(now, d_sums, places[i], launch), own, share, launch)
        return back(t, d_hidden + turn(_unless_first(s, direct)).astype(jnp.float32), d_memory, inputs)

    last = share.num_times - 1
    direct, *inputs = read(last)
    direct = turn(direct).astype(jnp.float32)
    d_memory = back(last, direct, jnp.zeros_like(direct), prepare(last, inputs))
    d_memory = jax.lax.fori_loop(1, share.num_times, step, d_memory)
    blank = turn(jnp.zeros_like(d_memory))

    def leave_blank(t: Array, _: None) -> None:
        for gate in gates:
            _store(d_sums, (*at, t, gate), blank)
        d_mask[(*at, t, share.number)] = jnp.zeros((launch.rows,))

    jax.lax.fori_loop(share.num_times, num_times, leave_blank, None)


def _store(states: Any, index: Any, value: Array) -> None:
    """Stores what other programs await."""
    states[index] = jnp.minimum(value, LARGEST).astype(states.dtype)


def _read(states: Any, index: Any, launch: Launch) -> Array:
    """Reads what other programs store, or infinity; past the L1 cache, which would not notice."""
    return states[index] if launch.interpret else load(states.at[index], volatile=True)


def _await(seen: Array, states: Any, index: Any, launch: Launch) -> Array:
    """Reads again until all that other programs store is there."""
    return jax.lax.while_loop(
        lambda seen: jnp.max(seen.reshape(-1)) == jnp.inf, lambda _: _read(states, index, launch), seen
    )


def _unless_first(t: Array, x: Array) -> Array:
    """Returns x, or zero at the first step."""
    # Later steps multiply too, after they have waited: Triton rearranges what it loaded where it is first multiplied,
    # or else where it is loaded, which would delay the reading of what is awaited.
    return jnp.minimum(t, 1).astype(x.dtype) * x


def _add_product(total: Array, states: Array, weight: Array, share: _Share, launch: Launch) -> Array:
    """Adds states weightᵀ, turned: all lie along the axis that is summed over, as tensor cores like to read them."""
    left, right = (weight, states) if share.units_first else (states, weight)
    along = (((1,), (1,)), ((), ()))
    return total + jax.lax.dot_general(left, right, along, launch.precision, preferred_element_type=jnp.float32)


def _sigmoid(x: Array, launch: Launch) -> Array:
    """Computes σ(x), for bfloat16 by an instruction for tanh that is off by 2⁻¹¹, where bfloat16 is off by 2⁻⁹."""
    is_rough = launch.weight_dtype == jnp.bfloat16 and not launch.interpret
    return 0.5 + 0.5 * approx_tanh(0.5 * x) if is_rough else jax.nn.sigmoid(x)


def _tanh(x: Array, launch: Launch) -> Array:
    return 2 * _sigmoid(2 * x, launch) - 1
