"""The paper's relaxed model once more: slow, in plain loops, written from the paper.

Nothing here imports from the package, and everything is a probability, never its log. The paper counts steps from 1;
here they are 0 .. T - 1, so a boundary is one of the times 0 .. T, and time T is the end. Arrays may be longer than a
demonstration: whatever stands after time T is padding.

What the paper leaves open is decided here as follows.

- The last boundary is known (b_M = T), so it costs nothing; nor do boundaries where M = 1.
- The "prior on the soft length" is put on the M - 1 segments whose end is a random variable, each with the entropy of
  its boundary: Σ_i (-H[q(b_i)] - log p(L_i)), with d! continued by Γ(d + 1), and normalised over 0 .. T.
- Gates of the LSTM stand in the usual order: input, forget, candidate, output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

Array = np.ndarray


class TwinParameters(NamedTuple):
    """Parameters of the recognition model; rows are outputs, columns inputs."""

    input_weight: Array  # 4 hidden x input
    hidden_weight: Array  # 4 hidden x hidden
    gate_bias: Array
    boundary_weight_1: Array  # one hidden layer
    boundary_bias_1: Array
    boundary_weight_2: Array
    boundary_bias_2: Array
    code_weight: Array
    code_bias: Array
    attention_weight: Array
    attention_bias: Array


class TwinMemory(NamedTuple):
    """Parameters of what policies remember with: an LSTM."""

    input_weight: Array
    hidden_weight: Array
    gate_bias: Array


class TwinTermination(NamedTuple):
    """Parameters of the termination policy: an LSTM, two hidden layers, one number."""

    input_weight: Array
    hidden_weight: Array
    gate_bias: Array
    layers: list[tuple[Array, Array]]


class TwinInference(NamedTuple):
    """For each segment, what the recognition model says; rows are segments."""

    masks: Array
    encodings: Array
    boundary_logits: Array  # minus infinity where a boundary is illegal
    boundary_samples: Array
    segment_probs: Array
    readouts: Array
    code_logits: Array


class TwinLoss(NamedTuple):
    reconstruction: float
    codes: float
    boundaries: float


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def affine(weight: Array, bias: Array, x: Array) -> Array:
    result = []
    for row, offset in zip(weight, bias, strict=True):
        total = float(offset)
        for w, value in zip(row, x, strict=True):
            total += float(w) * float(value)
        result.append(total)
    return np.array(result)


def softmax(logits: Array) -> Array:
    largest = max(logits)
    weights = [math.exp(logit - largest) for logit in logits]
    return np.array([weight / sum(weights) for weight in weights])


# The recognition model


def lstm_pass(p: TwinParameters | TwinTermination | TwinMemory, inputs: Array, mask: Array) -> Array:
    """From a state of zero; hidden and cell state times the mask after each update ("RNN state masking")."""
    size = p.hidden_weight.shape[1]
    hidden, cell, outputs = np.zeros(size), np.zeros(size), []
    for t in range(len(inputs)):
        from_input = affine(p.input_weight, p.gate_bias, inputs[t])
        from_state = affine(p.hidden_weight, np.zeros(4 * size), hidden)
        gates = from_input + from_state
        new_hidden, new_cell = np.zeros(size), np.zeros(size)
        for u in range(size):
            let_in, keep = sigmoid(gates[u]), sigmoid(gates[size + u])
            candidate, let_out = math.tanh(gates[2 * size + u]), sigmoid(gates[3 * size + u])
            new_cell[u] = keep * cell[u] + let_in * candidate
            new_hidden[u] = let_out * math.tanh(new_cell[u])
        hidden, cell = mask[t] * new_hidden, mask[t] * new_cell
        outputs.append(hidden)
    return np.array(outputs)


def boundary_head(p: TwinParameters, encoding: Array) -> float:
    """h_b^t: one hidden layer with ReLU, one number."""
    hidden = [max(0.0, value) for value in affine(p.boundary_weight_1, p.boundary_bias_1, encoding)]
    return float(affine(p.boundary_weight_2, p.boundary_bias_2, np.array(hidden))[0])


def boundary_logits(p: TwinParameters, encodings: Array, length: int) -> Array:
    """No boundary on the first step, none on padding, one allowed at the end ("Soft RNN readout")."""
    times = range(len(encodings))
    return np.array([boundary_head(p, encodings[t]) if 1 <= t <= length else -math.inf for t in times])


def concrete(logits: Array, gumbel: Array, temperature: float) -> Array:
    """A sample of the Gumbel softmax: ∝ exp((logit + gumbel) / τ)."""
    return softmax(np.array([(logit + g) / temperature for logit, g in zip(logits, gumbel, strict=True)]))


def cumsum(probs: Array, t: int) -> float:
    """P(b <= t)."""
    return float(sum(probs[k] for k in range(t + 1)))


def state_mask(earlier: list[Array], t: int) -> float:
    """mask_i(t) = Π_{j<i} P(b_j <= t); 1 for the first segment."""
    product = 1.0
    for probs in earlier:
        product *= cumsum(probs, t)
    return product


def segment_prob(earlier: list[Array], own: Array, t: int) -> float:
    """P(t ∈ C_i) = [1 - P(b_i <= t)] Π_{j<i} P(b_j <= t)."""
    return (1.0 - cumsum(own, t)) * state_mask(earlier, t)


def last_step_readout(boundary: Array) -> Array:
    """The weight of step t is q(b_i = t + 1)."""
    return np.array([boundary[t + 1] if t + 1 < len(boundary) else 0.0 for t in range(len(boundary))])


def attentive_readout(p: TwinParameters, encodings: Array, segment: Array) -> Array:
    """Appendix "Attentive readout": softmax_t(a^t + log P(t ∈ C_i)), that is ∝ P(t ∈ C_i) exp(a^t)."""
    scores = [float(affine(p.attention_weight, p.attention_bias, encoding)[0]) for encoding in encodings]
    weights = [prob * math.exp(score) for prob, score in zip(segment, scores, strict=True)]
    return np.array([weight / sum(weights) for weight in weights])


def read(p: TwinParameters, encodings: Array, weights: Array) -> Array:
    """Σ_t w_t h_z^t: logits of the linear head, averaged."""
    total = np.zeros(len(p.code_bias))
    for weight, encoding in zip(weights, encodings, strict=True):
        total = total + weight * affine(p.code_weight, p.code_bias, encoding)
    return total


def infer(
    p: TwinParameters,
    inputs: Array,
    length: int,
    gumbel: Array,
    *,
    temperature: float,
    readout: str,
    label_ends: list[int] | None = None,
) -> TwinInference:
    """One pass over the whole input for each segment, "softly masking" what earlier segments explain.

    Labelled boundaries take the place of samples.
    """
    num_segments, num_times = gumbel.shape
    earlier: list[Array] = []
    rows = []
    for i in range(num_segments):
        mask = np.array([state_mask(earlier, t) for t in range(num_times)])
        encodings = lstm_pass(p, inputs, mask)
        logits = boundary_logits(p, encodings, length)
        end = length if i == num_segments - 1 else (label_ends[i] if label_ends else None)
        if end is None:
            boundary = concrete(logits, gumbel[i], temperature)
        else:
            boundary = np.array([1.0 if t == end else 0.0 for t in range(num_times)])
        segment = np.array([segment_prob(earlier, boundary, t) for t in range(num_times)])
        if readout == "last":
            weights = last_step_readout(boundary)
        else:
            # The sum is over steps; time T and padding are none.
            steps = np.array([segment[t] if t < length else 0.0 for t in range(num_times)])
            weights = attentive_readout(p, encodings, steps)
        rows.append((mask, encodings, logits, boundary, segment, weights, read(p, encodings, weights)))
        earlier.append(boundary)
    return TwinInference(*(np.array(column) for column in zip(*rows, strict=True)))


# The loss


def standardised(actions: Array, every: Array) -> Array:
    """Continuous actions in standard deviations of all the data's, from their mean; each entry has its own."""
    columns = [[float(x) for x in column] for column in every.T]
    means = [sum(column) / len(column) for column in columns]
    spreads = [math.sqrt(sum((x - m) ** 2 for x in c) / len(c)) for c, m in zip(columns, means, strict=True)]
    return np.array([[(x - m) / s for x, m, s in zip(row, means, spreads, strict=True)] for row in actions])


def gaussian_density(action: Array, mean: Array, log_sigma: Array, floor: float) -> float:
    """Of an action with independent entries, whose deviations are never below a floor."""
    product = 1.0
    for a, m, s in zip(action, mean, log_sigma, strict=True):
        sigma = max(math.exp(s), floor)
        product *= math.exp(-(((a - m) / sigma) ** 2) / 2) / (sigma * math.sqrt(2 * math.pi))
    return product


def mixed_policy(code: Array, policy: Array) -> Array:
    """Σ_k z_k π_k(a_t | s_t), for each step (appendix "Sub-task policies")."""
    return np.array([sum(z * row[k] for k, z in enumerate(code)) for row in policy])


def reconstruction(segment_probs: Array, codes: Array, policies: list[Array], length: int) -> float:
    """- Σ_i Σ_t seg_i(t) log p(a_t | s_t, z_i) ("Loss masking"; its minus sign is that of the line before).

    Each segment has a table of its own, π_k(a_t | what is seen in it); they are the same where policies do not forget.
    """
    total = 0.0
    for segment, code, policy in zip(segment_probs, codes, policies, strict=True):
        mixed = mixed_policy(code, policy)
        for t in range(length):
            total -= segment[t] * math.log(mixed[t])
    return total


def kl(q: Array, p: Array) -> float:
    return float(sum(a * math.log(a / b) for a, b in zip(q, p, strict=True) if a > 0))


def code_kl(logits: Array) -> float:
    """Of the categorical distribution that is not relaxed, to the uniform one."""
    return kl(softmax(logits), np.full(len(logits), 1.0 / len(logits)))


def gaussian_code_kl(mean: Array, log_variance: Array) -> float:
    """KL(N(mean, variance) || N(0, 1)), of all entries."""
    return sum((m**2 + math.exp(v) - 1 - v) / 2 for m, v in zip(mean, log_variance, strict=True))


def poisson(duration: float, rate: float) -> float:
    return math.exp(-rate) * rate**duration / math.gamma(duration + 1.0)


def boundary_prior(begin: int, length: int, num_times: int, rate: float) -> Array:
    """p(b_i = t | b_{i-1} = begin): a Poisson of t - begin, truncated to [begin, T] and renormalised."""
    weights = [poisson(t - begin, rate) if begin <= t <= length else 0.0 for t in range(num_times)]
    return np.array([weight / sum(weights) for weight in weights])


def first_boundary_cost(logits: Array, rate: float, length: int, num_segments: int) -> float:
    """Appendix "KL term": that of the first boundary, times M."""
    return num_segments * kl(softmax(logits), boundary_prior(0, length, len(logits), rate))


def soft_length_cost(logits: Array, segment: Array, rate: float, length: int) -> float:
    """Appendix "KL term", the alternative: a prior on Σ_t P(t ∈ C_i), for one segment."""
    negative_entropy = sum(a * math.log(a) for a in softmax(logits) if a > 0)
    soft_length = float(sum(segment[t] for t in range(length)))
    normaliser = sum(poisson(d, rate) for d in range(length + 1))
    return negative_entropy - math.log(poisson(soft_length, rate) / normaliser)


def boundary_cost(found: TwinInference, rate: float, length: int, term: str) -> float:
    num_segments = len(found.boundary_logits)
    if num_segments == 1:
        return 0.0
    if term == "first":
        return first_boundary_cost(found.boundary_logits[0], rate, length, num_segments)
    inner = range(num_segments - 1)
    return sum(soft_length_cost(found.boundary_logits[i], found.segment_probs[i], rate, length) for i in inner)


def loss_terms(found: TwinInference, codes: Array, policy: Array, length: int, *, rate: float, term: str) -> TwinLoss:
    return TwinLoss(
        reconstruction(found.segment_probs, codes, [policy] * len(codes), length),
        sum(code_kl(logits) for logits in found.code_logits),
        boundary_cost(found, rate, length, term),
    )


def remembered(p: TwinTermination | TwinMemory, embedded: Array, actions: Array, mask: Array, length: int) -> Array:
    """Of a segment, at times 0 .. T: state t with the action that led to it, times the mask of that action's step."""
    before = [np.zeros(actions.shape[1])] + [mask[t] * actions[t] for t in range(length)]
    inputs = np.array([np.concatenate([embedded[t], before[t]]) for t in range(length + 1)])
    return lstm_pass(p, inputs, mask)


def termination_loss(
    p: TwinTermination, embedded: Array, actions: Array, masks: Array, ends: list[int], length: int
) -> float:
    """Appendix "Termination policy": 1 at the end of a segment and 0 elsewhere, behind the masks of recognition."""
    total = 0.0
    for mask, end in zip(masks, ends, strict=True):
        for t, encoding in enumerate(remembered(p, embedded, actions, mask, length)):
            (first, second, last) = p.layers
            hidden = np.maximum(affine(*second, np.maximum(affine(*first, encoding), 0.0)), 0.0)
            logit = float(affine(*last, hidden)[0])
            total -= math.log(sigmoid(logit) if t == end else sigmoid(-logit))
    return total


def plain_vae_loss(
    p: TwinParameters, inputs: Array, length: int, gumbel: Array, temperature: float, policy: Array
) -> TwinLoss:
    """One code for the whole sequence, read after its last step: what M = 1 must be."""
    encodings = lstm_pass(p, inputs[:length], np.ones(length))
    logits = affine(p.code_weight, p.code_bias, encodings[-1])
    mixed = mixed_policy(concrete(logits, gumbel, temperature), policy)
    return TwinLoss(-sum(math.log(mixed[t]) for t in range(length)), code_kl(logits), 0.0)


# Test time


class TwinCut(NamedTuple):
    end: int
    boundary_probs: Array  # q(b_i | x from begin on), over times of the whole demonstration
    code_logits: Array


def cut(
    p: TwinParameters, inputs: Array, begin: int, length: int, end: int | None, readout: str, spare: int = 0
) -> TwinCut:
    """One segment of what is left, which is a demonstration of its own: the network starts anew with its first step.

    The segment ends at the likeliest place, unless labelled, and leaves so many steps over.
    """
    rest = inputs[begin : length + 1]
    encodings = lstm_pass(p, rest, np.ones(len(rest)))
    probs = np.zeros(len(inputs))
    probs[begin : length + 1] = softmax(boundary_logits(p, encodings, length - begin))
    if end is None:
        end = int(np.argmax(probs[: length - spare + 1]))
    size = end - begin
    if readout == "last":
        weights = np.array([1.0 if t == size - 1 else 0.0 for t in range(len(rest))])
    else:
        weights = attentive_readout(p, encodings, np.array([1.0 if t < size else 0.0 for t in range(len(rest))]))
    return TwinCut(end, probs, read(p, encodings, weights))


def segment(p: TwinParameters, inputs: Array, length: int, num_segments: int, readout: str) -> list[TwinCut]:
    """The discrete segmentation; fewer than `num_segments` where the end is reached before."""
    begin, cuts = 0, []
    for i in range(num_segments):
        cuts.append(cut(p, inputs, begin, length, length if i == num_segments - 1 else None, readout))
        begin = cuts[-1].end
        if begin == length:
            break
    return cuts


# Everything there is, one by one


def all_boundaries(num_segments: int, length: int) -> Iterator[tuple[int, ...]]:
    """Every 0 <= b_1 <= ... <= b_M = T of the generative model; segments may be empty."""
    for inner in itertools.combinations_with_replacement(range(length + 1), num_segments - 1):
        yield (*inner, length)


def joint_prob(boundaries: tuple[int, ...], codes: tuple[int, ...], policy: Array, rate: float) -> float:
    """p(a, b, z | s) = Π_i [Π_t π_{z_i}(a_t | s_t)] p(b_i | b_{i-1}) p(z_i), without p(b_M), which is known."""
    length, num_codes = boundaries[-1], policy.shape[1]
    total, begin = 1.0, 0
    for i, (end, code) in enumerate(zip(boundaries, codes, strict=True)):
        for t in range(begin, end):
            total *= policy[t, code]
        if i < len(boundaries) - 1:
            total *= boundary_prior(begin, length, length + 1, rate)[end]
        total /= num_codes
        begin = end
    return total


def likelihood(num_segments: int, length: int, policy: Array, rate: float) -> float:
    """p(a | s): the sum over all boundaries and codes (the paper's equation of the generative model)."""
    total = 0.0
    for boundaries in all_boundaries(num_segments, length):
        for codes in itertools.product(range(policy.shape[1]), repeat=num_segments):
            total += joint_prob(boundaries, codes, policy, rate)
    return total
