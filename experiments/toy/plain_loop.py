"""Trains the toy task in the simplest form: Python loops over time steps and segments.

The model is that of the official toy code (github.com/tkipf/compile), with its departures from the paper: an end symbol
as an input of its own, a readout that averages encodings and passes them through a hidden layer, a Poisson prior one
position too far, and padding that is not masked: boundaries may lie in it, and zeros there are to be reconstructed.
Its settings: batches of 512, 64 units, Gaussian codes of 32 numbers, Adam at 1e-2, both weights 0.1, temperature 1,
rate 3; and initial weights as PyTorch draws them.

Nothing here is shared with the engines: `experiments.toy.compare` runs it beside them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

NUM_SYMBOLS, NUM_SEGMENTS, MAX_REPEATS, HIDDEN_DIM, CODE_DIM = 5, 3, 4, 64, 32
LEARNING_RATE, PRIOR_RATE = 1e-2, 3.0
NUM_TIMES = NUM_SEGMENTS * MAX_REPEATS + 1
IMPOSSIBLE = -1e30
"""Logit of a boundary where there can be none, as in the official code."""

Form = Literal["eager", "cell", "whole"]
"""What is compiled: single operations, the step of the LSTM, or an update with all its loops unrolled."""
Params = dict[str, Array]


class Betas(NamedTuple):
    """Weights of the divergences of codes and of boundaries from their priors; by default the official code's."""

    codes: float = 0.1
    boundaries: float = 0.1


class Sequences(NamedTuple):
    """A batch of sequences: symbols from 1, then 0 for the end and for padding."""

    symbols: Int[Array, "B times"]
    lengths: Int[Array, " B"]


class Segment(NamedTuple):
    """Outputs of one pass over a batch for one segment i."""

    boundary_logits: Float[Array, "B times"]
    probs: Float[Array, "B times"]
    """P(t ∈ C_i), the probability that step t belongs to the segment."""
    code_outputs: Float[Array, "B outputs"]
    symbol_logits: Float[Array, "B symbols"]
    """Logits of the segment's symbol, the same at each of its steps."""


def draw_sequences(rng: np.random.Generator, num: int) -> Sequences:
    """Draws sequences, each of them runs of distinct symbols."""
    tasks = rng.permuted(np.tile(np.arange(1, NUM_SYMBOLS + 1), (num, 1)), axis=1)[:, :NUM_SEGMENTS]
    ends = np.cumsum(rng.integers(1, MAX_REPEATS + 1, (num, NUM_SEGMENTS)), axis=1)
    run = np.sum(np.arange(NUM_TIMES)[None, :, None] >= ends[:, None], axis=2)
    symbols = np.take_along_axis(np.pad(tasks, ((0, 0), (0, 1))), run, axis=1)
    return Sequences(jnp.asarray(symbols), jnp.asarray(ends[:, -1]))


def new_params(key: PRNGKeyArray) -> Params:
    """Draws weights as PyTorch does: normal embeddings, all else uniform within 1 / √inputs."""
    keys = iter(jax.random.split(key, 32))
    params = {"embed": jax.random.normal(next(keys), (NUM_SYMBOLS + 1, HIDDEN_DIM))}

    def layer(name: str, num_inputs: int, num_outputs: int) -> None:
        limit = num_inputs**-0.5
        draw = functools.partial(jax.random.uniform, minval=-limit, maxval=limit)
        params[f"{name}.weight"] = draw(next(keys), (num_inputs, num_outputs))
        params[f"{name}.bias"] = draw(next(keys), (num_outputs,))

    layer("lstm.input", HIDDEN_DIM, 4 * HIDDEN_DIM)
    layer("lstm.state", HIDDEN_DIM, 4 * HIDDEN_DIM)
    sizes = (("boundary", HIDDEN_DIM, 1), ("code", HIDDEN_DIM, 2 * CODE_DIM), ("decode", CODE_DIM, NUM_SYMBOLS + 1))
    for name, num_inputs, num_outputs in sizes:
        layer(f"{name}.hidden", num_inputs, HIDDEN_DIM)
        layer(f"{name}.out", HIDDEN_DIM, num_outputs)
    return params


def _linear(params: Params, name: str, x: Array) -> Array:
    return x @ params[f"{name}.weight"] + params[f"{name}.bias"]


def two_layers(params: Params, name: str, x: Array) -> Array:
    """Applies a hidden and an output layer, as boundaries, codes and symbols have each."""
    return _linear(params, f"{name}.out", jax.nn.relu(_linear(params, f"{name}.hidden", x)))


def lstm_cell(params: Params, x: Array, hidden: Array, cell: Array) -> tuple[Array, Array]:
    """Makes one step of the LSTM, and returns its new output and its new cell."""
    gates = _linear(params, "lstm.input", x) + _linear(params, "lstm.state", hidden)
    write, keep, new, show = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(keep) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
    return jax.nn.sigmoid(show) * jnp.tanh(cell), cell


def encode(params: Params, inputs: Array, mask: Array, step: Callable[..., Any]) -> Array:
    """Runs the LSTM over a batch, with a call for each time, and returns its outputs; where `mask` is 0 it forgets."""
    hidden = cell = jnp.zeros((inputs.shape[0], HIDDEN_DIM))
    encodings = []
    for t in range(NUM_TIMES):
        hidden, cell = step(params, inputs[:, t], hidden, cell)
        hidden, cell = mask[:, t, None] * hidden, mask[:, t, None] * cell
        encodings.append(hidden)
    return jnp.stack(encodings, axis=1)


def segment_probs(earlier: list[Array], boundary: Array) -> Array:
    """P(t ∈ C_i) = [1 - F_i(t)] Π_{j<i} F_j(t), with F the cumulative sums of the boundaries."""
    return (1 - jnp.cumsum(boundary, axis=1)) * open_mask(earlier, boundary)


def open_mask(earlier: list[Array], like: Array) -> Array:
    """Π_{j<i} F_j(t): whether all earlier boundaries have come by time t."""
    return math.prod((jnp.cumsum(boundary, axis=1) for boundary in earlier), start=jnp.ones_like(like))


def forward(params: Params, batch: Sequences, keys: Key[Array, " n"] | None, step: Callable[..., Any]) -> list[Segment]:
    """Infers segment by segment; without keys everything is discrete, or a mean."""
    times = jnp.arange(NUM_TIMES)
    inputs, end = params["embed"][batch.symbols], (times == batch.lengths[:, None]).astype(jnp.float32)
    boundaries: list[Array] = []
    segments = []
    for i in range(NUM_SEGMENTS):
        encodings = encode(params, inputs, open_mask(boundaries, end), step)
        logits = two_layers(params, "boundary", encodings)[..., 0]
        logits = jnp.where(times > 0, logits, IMPOSSIBLE)  # possible where there is padding, unlike in the paper
        boundary = sample(logits, None if keys is None else keys[2 * i]) if i < NUM_SEGMENTS - 1 else end
        read = jnp.sum(boundary[:, 1:, None] * encodings[:, :-1], axis=1)
        outputs = two_layers(params, "code", read)
        code = sample_code(outputs, None if keys is None else keys[2 * i + 1])
        symbols = two_layers(params, "decode", code)
        segments.append(Segment(logits, segment_probs(boundaries, boundary), outputs, symbols))
        boundaries.append(boundary)
    return segments


def sample(logits: Array, key: PRNGKeyArray | None) -> Array:
    """Draws a relaxed sample; without a key, returns the most probable value, one-hot."""
    if key is None:
        return jax.nn.one_hot(jnp.argmax(logits, axis=1), logits.shape[1])
    return jax.nn.softmax(logits + jax.random.gumbel(key, logits.shape))


def sample_code(outputs: Array, key: PRNGKeyArray | None) -> Array:
    """Draws a Gaussian code from its means and log-variances; without a key, returns the mean."""
    mean, log_variance = jnp.split(outputs, 2, axis=1)
    return mean if key is None else mean + jnp.exp(log_variance / 2) * jax.random.normal(key, mean.shape)


def code_kl(outputs: Array) -> Array:
    """Returns the KL of codes to their prior, for each sequence."""
    mean, log_variance = jnp.split(outputs, 2, axis=1)
    return 0.5 * jnp.sum(mean**2 + jnp.exp(log_variance) - 1 - log_variance, axis=1)


def boundary_kl(logits: Array) -> Array:
    """Returns the KL of the first boundary to the Poisson prior, for each sequence."""
    log_q, counts = jax.nn.log_softmax(logits), jnp.arange(1.0, NUM_TIMES + 1)
    log_p = jax.nn.log_softmax(counts * jnp.log(PRIOR_RATE) - jax.lax.lgamma(counts + 1))
    return jnp.sum(jnp.where(log_q > IMPOSSIBLE / 2, jnp.exp(log_q) * (log_q - log_p), 0.0), axis=1)


def loss_of(
    params: Params, batch: Sequences, key: PRNGKeyArray, betas: Betas, *, step: Callable[..., Any]
) -> Float[Array, ""]:
    """Returns the loss, reconstruction and weighted divergences, in the mean over sequences."""
    segments = forward(params, batch, jax.random.split(key, 2 * NUM_SEGMENTS), step)
    counted = jnp.arange(NUM_TIMES) < NUM_TIMES - 1  # zeros of padding among them
    loss = betas.boundaries * NUM_SEGMENTS * boundary_kl(segments[0].boundary_logits)
    for segment in segments:
        log_probs = jnp.take_along_axis(jax.nn.log_softmax(segment.symbol_logits), batch.symbols, axis=1)
        loss = loss - jnp.sum(jnp.where(counted, segment.probs * log_probs, 0.0), axis=1)
        loss = loss + betas.codes * code_kl(segment.code_outputs)
    return jnp.mean(loss)


@jax.jit
def correct(params: Params, batch: Sequences) -> Bool[Array, "B times"]:
    """Whether each symbol is reconstructed where everything is discrete; not timed, hence compiled."""
    segments = forward(params, batch, None, lstm_cell)
    which = jnp.argmax(jnp.stack([segment.probs for segment in segments]), axis=0)
    guesses = jnp.stack([jnp.argmax(segment.symbol_logits, axis=1) for segment in segments], axis=1)
    return jnp.take_along_axis(guesses, which, axis=1) == batch.symbols


@functools.cache
def make_update(form: Form) -> tuple[optax.GradientTransformation, Callable[..., tuple[Params, Any]]]:
    """Returns the optimiser, and the function that makes a step of it."""
    optimiser = optax.adam(LEARNING_RATE)
    loss = functools.partial(loss_of, step=jax.jit(lstm_cell) if form == "cell" else lstm_cell)

    def update(params: Params, state: Any, batch: Sequences, key: PRNGKeyArray, betas: Betas) -> tuple[Params, Any]:
        updates, state = optimiser.update(jax.grad(loss)(params, batch, key, betas), state)
        return optax.apply_updates(params, updates), state

    return optimiser, jax.jit(update) if form == "whole" else update


class PlainToy:
    """A training of the toy model; the seed is that of weights, sequences and noise."""

    def __init__(self, form: Form, batch_size: int, betas: Betas, seed: int):
        self.batch_size, self.betas = batch_size, betas
        self.rng = np.random.default_rng(seed)
        first_key, self.noise_key = jax.random.split(jax.random.key(seed))
        optimiser, self._update = make_update(form)
        self.params = new_params(first_key)
        self.state = optimiser.init(self.params)

    def step(self, iteration: int) -> Params:
        """Makes one update, on fresh sequences, and returns the new parameters."""
        batch = draw_sequences(self.rng, self.batch_size)
        key = jax.random.fold_in(self.noise_key, iteration)
        self.params, self.state = self._update(self.params, self.state, batch, key, self.betas)
        return self.params

    def accuracy(self, batch: Sequences) -> float:
        """Returns the share of symbols, padding left out, that are reconstructed."""
        real = np.arange(NUM_TIMES) < np.asarray(batch.lengths)[:, None]
        return float(np.asarray(correct(self.params, batch))[real].mean())
