"""The relaxed model beside its twin, number by number, and in the limits where the paper says what it must be."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compile_il.inference.records import LOG_ZERO
from compile_il.inference.relaxed.decode import HardSegments, cut_segments
from compile_il.inference.relaxed.distributions import categorical_kl, first_boundary_prior, relax
from compile_il.inference.relaxed.objective import LossTerms, mixed_log_policy, reconstruction
from compile_il.inference.relaxed.recognition import (
    Inference,
    Recognition,
    hard_boundary,
    read_attentively,
    read_last,
    soft_segment,
)
from tests.inference.relaxed.single import encode, no_supervision, soft_segments, unlabelled_terms
from tests.inference.relaxed.single import infer as relaxed_infer
from tests.twins import relaxed_twin as twin
from tests.twins.relaxed_twin import TwinParameters

LENGTH, TIMES, NUM_SEGMENTS, NUM_CODES, HIDDEN, INPUT = 5, 7, 3, 3, 4, 2
RATE = 2.5
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(TIMES, INPUT))
POLICY = RNG.uniform(0.02, 1.0, (TIMES - 1, NUM_CODES))
GUMBEL = RNG.gumbel(size=(NUM_SEGMENTS, TIMES))
CODE_GUMBEL = RNG.gumbel(size=(NUM_SEGMENTS, NUM_CODES))


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def draw_parameters(seed: int, spread: float = 0.8) -> TwinParameters:
    rng = np.random.default_rng(seed)
    shapes = (
        (4 * HIDDEN, INPUT),
        (4 * HIDDEN, HIDDEN),
        (4 * HIDDEN,),
        (HIDDEN, HIDDEN),
        (HIDDEN,),
        (1, HIDDEN),
        (1,),
        (NUM_CODES, HIDDEN),
        (NUM_CODES,),
        (1, HIDDEN),
        (1,),
    )
    return TwinParameters(*(rng.normal(0, spread, shape) for shape in shapes))


PARAMETERS = draw_parameters(1)


def leaves(network: Recognition) -> tuple[Any, ...]:
    """In the order of the twin's parameters."""
    cell, (first, second) = network.cell, network.boundary_head.layers
    linear = (first, second, network.code_head, network.attention_head)
    return cell.weight_ih, cell.weight_hh, cell.bias, *(x for layer in linear for x in (layer.weight, layer.bias))


def ours(p: TwinParameters) -> Recognition:
    empty = Recognition(INPUT, HIDDEN, NUM_CODES, key=jax.random.key(0))
    return eqx.tree_at(leaves, empty, tuple(map(jnp.asarray, p)))


@eqx.filter_jit
def infer(
    network: Recognition, inputs: Any, length: Any, gumbel: Any, temperature: float, readout: str = "last"
) -> Inference:
    return relaxed_infer(network, inputs, length, gumbel, temperature=temperature, readout=readout)


@eqx.filter_jit
def segment(network: Recognition, inputs: Any, length: Any, num_segments: int, readout: str) -> HardSegments:
    return cut_segments(network, inputs, length, no_supervision(length, num_segments), readout)


def array(values: Any) -> jax.Array:
    return jnp.asarray(values)


def close(found: Any, expected: Any, name: str = "") -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), **TOLERANCE, err_msg=name)


readouts = pytest.mark.parametrize("readout", ["last", "attentive"])
lengths = pytest.mark.parametrize("length", [LENGTH, TIMES - 1])


@readouts
@lengths
@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_every_number_of_the_recognition_model(length: int, readout: str, temperature: float) -> None:
    network = ours(PARAMETERS)
    expected = twin.infer(PARAMETERS, INPUTS, length, GUMBEL, temperature=temperature, readout=readout)
    found = infer(network, array(INPUTS), array(length), array(GUMBEL), temperature, readout)
    legal = np.isfinite(expected.boundary_logits)
    assert (np.asarray(found.boundary_logits)[~legal] == LOG_ZERO).all()
    close(found.boundary_logits[legal], expected.boundary_logits[legal], "boundary_logits")
    close(jnp.exp(found.log_boundaries), expected.boundary_samples, "boundary_samples")
    close(jnp.exp(found.log_segments), expected.segment_probs, "segment_probs")
    close(found.code_logits, expected.code_logits, "code_logits")
    soft = soft_segments(found.log_boundaries[:-1], array(length))
    close(jnp.exp(soft.log_mask), expected.masks, "masks")
    for i in range(NUM_SEGMENTS):
        encodings = encode(network.cell, array(INPUTS), jnp.exp(soft.log_mask[i]))
        close(encodings, expected.encodings[i], "encodings")
        if readout == "last":
            weights = read_last(found.log_boundaries[i])
        else:
            weights = read_attentively(
                jax.vmap(network.attention_head)(encodings), found.log_segments[i], array(length)
            )
        close(weights, expected.readouts[i], "readouts")
        codes = relax(found.code_logits[i], array(CODE_GUMBEL[i]), temperature)
        close(jnp.exp(codes), twin.concrete(expected.code_logits[i], CODE_GUMBEL[i], temperature), "codes")


BETAS = {"beta_codes": 0.1, "beta_boundaries": 0.3}


def our_loss(network: Recognition, num_segments: int, length: Any, readout: str, term: str) -> LossTerms:
    """With the noise above, at temperature 0.7."""
    gumbel = array(GUMBEL[:num_segments])
    found = relaxed_infer(network, array(INPUTS), length, gumbel, temperature=0.7, readout=readout)
    log_codes = jax.vmap(relax, in_axes=(0, 0, None))(found.code_logits, array(CODE_GUMBEL[:num_segments]), 0.7)
    return unlabelled_terms(found, log_codes, jnp.log(array(POLICY)), length, rate=RATE, boundary_term=term, **BETAS)


jitted_loss = eqx.filter_jit(our_loss)


def twin_loss(p: TwinParameters, num_segments: int, length: int, readout: str, term: str) -> twin.TwinLoss:
    found = twin.infer(p, INPUTS, length, GUMBEL[:num_segments], temperature=0.7, readout=readout)
    pairs = zip(found.code_logits, CODE_GUMBEL, strict=False)
    codes = np.array([twin.concrete(logits, gumbel, 0.7) for logits, gumbel in pairs])
    return twin.loss_terms(found, codes, POLICY, length, rate=RATE, term=term)


@readouts
@lengths
@pytest.mark.parametrize("term", ["first", "lengths"])
@pytest.mark.parametrize("num_segments", [1, 2, 3])
def test_every_term_of_the_loss(num_segments: int, length: int, readout: str, term: str) -> None:
    expected = twin_loss(PARAMETERS, num_segments, length, readout, term)
    found = jitted_loss(ours(PARAMETERS), num_segments, array(length), readout, term)
    close(found.reconstruction, expected.reconstruction)
    close(found.codes, 0.1 * expected.codes)
    close(found.boundaries, 0.3 * expected.boundaries)


@pytest.mark.parametrize(("readout", "term"), [("last", "first"), ("attentive", "lengths")])
def test_gradients_are_differences_of_the_twin(readout: str, term: str) -> None:
    """Of the whole loss, for about a dozen numbers of each parameter."""
    step = 1e-5

    def loss(network: Recognition) -> Any:
        return sum(our_loss(network, NUM_SEGMENTS, array(LENGTH), readout, term))

    def loss_of_twin(name: str, index: tuple[int, ...], change: float) -> float:
        changed = getattr(PARAMETERS, name).copy()
        changed[index] += change
        terms = twin_loss(PARAMETERS._replace(**{name: changed}), NUM_SEGMENTS, LENGTH, readout, term)
        return terms.reconstruction + 0.1 * terms.codes + 0.3 * terms.boundaries

    gradients = leaves(eqx.filter_jit(eqx.filter_grad(loss))(ours(PARAMETERS)))
    for name, found in zip(TwinParameters._fields, gradients, strict=True):
        for index in list(np.ndindex(found.shape))[:: max(1, found.size // 12)]:
            rise = loss_of_twin(name, index, step) - loss_of_twin(name, index, -step)
            np.testing.assert_allclose(found[index], rise / (2 * step), rtol=1e-5, atol=1e-6, err_msg=f"{name} {index}")


@readouts
@lengths
@pytest.mark.parametrize("num_segments", [1, 2, 3, 6])
def test_segmentation_at_test_time(num_segments: int, length: int, readout: str) -> None:
    reached_early = 0
    for seed in range(8):
        p = draw_parameters(seed)
        expected = twin.segment(p, INPUTS, length, num_segments, readout)
        found = segment(ours(p), array(INPUTS), array(length), num_segments, readout)
        ends = [cut.end for cut in expected]
        assert found.ends.tolist() == ends + [length] * (num_segments - len(ends))
        close(found.code_logits[: len(ends)], [cut.code_logits for cut in expected])
        reached_early += len(ends) < num_segments
    assert reached_early > 0 or num_segments == 1


def certain(positions: Any) -> np.ndarray:
    """Noise that leaves no other choice than these boundaries."""
    noise = np.full((len(positions), TIMES), LOG_ZERO)
    noise[np.arange(len(positions)), list(positions)] = 0.0
    return noise


@readouts
@pytest.mark.parametrize("num_segments", [1, 2, 3, 6])
def test_one_hot_boundaries_through_the_soft_code_are_the_discrete_code(num_segments: int, readout: str) -> None:
    """Segments included that are empty because the end was reached."""
    for seed in range(8):
        network = ours(draw_parameters(seed))
        hard = segment(network, array(INPUTS), array(LENGTH), num_segments, readout)
        noise = array(certain(hard.ends.tolist()))
        soft = infer(network, array(INPUTS), array(LENGTH), noise, 1.0, readout)
        np.testing.assert_array_equal(np.exp(soft.log_boundaries), np.eye(TIMES)[np.asarray(hard.ends)])
        np.testing.assert_allclose(soft.code_logits, hard.code_logits, rtol=1e-13, atol=1e-13)  # but for rounding
        starts = [0, *hard.ends[:-1].tolist()]
        for begin, end, log_segment in zip(starts, hard.ends.tolist(), soft.log_segments, strict=True):
            np.testing.assert_array_equal(np.flatnonzero(np.exp(log_segment)), np.arange(begin, end))


@lengths
def test_one_segment_is_a_plain_vae(length: int) -> None:
    """No boundary and no mask: one code for the whole sequence, and nothing that padding could change."""
    expected = twin.plain_vae_loss(PARAMETERS, INPUTS, length, CODE_GUMBEL[0], 0.7, POLICY)
    for term in ("first", "lengths"):
        found = jitted_loss(ours(PARAMETERS), 1, array(length), "last", term)
        close(found, expected._replace(codes=0.1 * expected.codes))
        assert float(found.boundaries) == 0


@eqx.filter_jit
def bound_with(network: Recognition, boundaries: Any, length: Any, log_policy: Any) -> tuple[Any, Any]:
    """q(b), and the ELBO's integrand for these boundaries, averaged over all codes under q(z | b)."""
    num_segments = boundaries.shape[0]
    noise = jnp.where(jnp.arange(TIMES) == boundaries[:, None], 0.0, LOG_ZERO)
    found = relaxed_infer(network, array(INPUTS), length, noise, temperature=1.0)
    log_q, log_p, begin = jnp.zeros(()), jnp.zeros(()), jnp.array(0)
    for i in range(num_segments - 1):
        end = boundaries[i]
        ahead = jnp.where(jnp.arange(TIMES) > begin, found.boundary_logits[i], LOG_ZERO)
        log_q += jnp.where(begin < length, jax.nn.log_softmax(ahead)[end], 0.0)
        # Truncated to what is left, the prior is that of the first boundary of the rest.
        log_p += first_boundary_prior(RATE, length - begin, TIMES)[end - begin]
        begin = end
    choices = array(list(itertools.product(range(NUM_CODES), repeat=num_segments)))
    log_code_probs = jax.nn.log_softmax(found.code_logits)
    weights = jnp.exp(log_code_probs[jnp.arange(num_segments), choices].sum(axis=1))

    def reconstruct(codes: Any) -> Any:
        log_codes = jnp.where(jnp.arange(NUM_CODES) == codes[:, None], 0.0, LOG_ZERO)
        return -reconstruction(found.log_segments, mixed_log_policy(log_codes, log_policy), length)

    expected = weights @ jax.vmap(reconstruct)(choices)
    return jnp.exp(log_q), expected - jax.vmap(categorical_kl)(found.code_logits).sum() + log_p - log_q


def posterior_of_twin(p: TwinParameters, num_segments: int, length: int) -> Iterator[tuple[Any, Any, float]]:
    """All boundaries and codes that q allows, with q(b, z): one cut after the other."""

    def extend(begin: int, left: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], float]]:
        if left == 0:
            yield (), (), 1.0
            return
        ends = [length] if left == 1 or begin == length else range(begin + 1, length + 1)
        for end in ends:
            if begin == length:  # an empty segment: all is masked, and the head reads a state of zero
                prob, logits = 1.0, p.code_bias
            else:
                found = twin.cut(p, INPUTS, begin, length, end, "last")
                prob, logits = 1.0 if left == 1 else float(found.boundary_probs[end]), found.code_logits
            for code, code_prob in enumerate(twin.softmax(logits)):
                for later_ends, later_codes, rest in extend(end, left - 1):
                    yield (end, *later_ends), (code, *later_codes), prob * code_prob * rest

    return extend(0, num_segments)


@given(
    num_segments=st.integers(1, 3),
    length=st.integers(1, LENGTH),
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([0.1, 0.8, 3.0]),
)
@example(num_segments=3, length=LENGTH, seed=0, spread=0.8)
@settings(max_examples=20)
def test_the_elbo_lies_below_the_likelihood_by_the_kl_to_the_posterior(
    num_segments: int, length: int, seed: int, spread: float
) -> None:
    """With weights of one, nothing relaxed, and every expectation a sum over all there is."""
    p = draw_parameters(seed, spread)
    policy = np.random.default_rng(seed).uniform(0.02, 1.0, (TIMES - 1, NUM_CODES))
    log_likelihood = math.log(twin.likelihood(num_segments, length, policy, RATE))
    kl, total = 0.0, 0.0
    allowed: dict[tuple[int, ...], float] = {}
    for boundaries, codes, q in posterior_of_twin(p, num_segments, length):
        posterior = twin.joint_prob(boundaries, codes, policy, RATE) / math.exp(log_likelihood)
        kl += q * math.log(q / posterior)
        allowed[boundaries] = allowed.get(boundaries, 0.0) + q
        total += q
    assert total == pytest.approx(1.0)
    elbo = 0.0
    for boundaries, expected_q in allowed.items():
        q, bound = bound_with(ours(p), array(boundaries), array(length), jnp.log(array(policy)))
        close(q, expected_q)
        elbo += float(q * bound)
    assert elbo <= log_likelihood
    assert log_likelihood - elbo == pytest.approx(kl, rel=1e-5, abs=1e-6)


WAYS = ("masks", "readout", "loss")


def loss_through(network: Recognition, ways: Any, num_segments: int, readout: str) -> Any:
    """The reconstruction, where gradients pass soft boundaries by those of their three uses whose weight is one."""

    def use(name: str, value: Any) -> Any:
        weight = ways[WAYS.index(name)]
        return weight * value + (1 - weight) * jax.lax.stop_gradient(value)

    state_open = read_open = loss_open = jnp.zeros(TIMES)
    log_segments, log_codes = [], []
    for i in range(num_segments):
        encodings = encode(network.cell, array(INPUTS), jnp.exp(state_open))
        if i == num_segments - 1:
            sample = hard_boundary(array(LENGTH), TIMES)
        else:
            sample = relax(network.boundary_logits(encodings, array(LENGTH)), array(GUMBEL[i]), 0.7)
        read = soft_segment(read_open, use("readout", sample))
        lost = soft_segment(loss_open, use("loss", sample))
        if readout == "last":
            weights = read_last(use("readout", sample))
        else:
            weights = read_attentively(network.attention(encodings), read.log_probs, array(LENGTH))
        state_open = soft_segment(state_open, use("masks", sample)).next_log_mask
        read_open, loss_open = read.next_log_mask, lost.next_log_mask
        log_segments.append(lost.log_probs)
        log_codes.append(relax(weights @ jax.vmap(network.code_head)(encodings), array(CODE_GUMBEL[i]), 0.7))
    mixed = mixed_log_policy(jnp.stack(log_codes), jnp.log(array(POLICY)))
    return reconstruction(jnp.stack(log_segments), mixed, array(LENGTH))


def shipped_reconstruction(network: Recognition, num_segments: int, readout: str) -> Any:
    return our_loss(network, num_segments, array(LENGTH), readout, "first").reconstruction


def of_boundary_head(gradient: Recognition) -> np.ndarray:
    """As one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in leaves(gradient)[3:7]])


@readouts
def test_gradients_reach_the_boundary_head_by_three_ways(readout: str) -> None:
    """Through the mask of the next segment, the readout of codes, and the masked loss; each of them alone.

    There is one soft boundary, so that no way leads on through another one, and the three add up to the whole.
    """
    network, gradient = ours(PARAMETERS), eqx.filter_jit(eqx.filter_grad(loss_through))

    def through(*ways: float) -> np.ndarray:
        return of_boundary_head(gradient(network, array(ways), 2, readout))

    assert np.abs(through(0.0, 0.0, 0.0)).max() == 0
    alone = [through(*row) for row in np.eye(3)]
    for way, found in zip(WAYS, alone, strict=True):
        assert np.isfinite(found).all()
        assert np.abs(found).max() > 1e-4, way
    whole = of_boundary_head(eqx.filter_jit(eqx.filter_grad(shipped_reconstruction))(network, 2, readout))
    close(sum(alone), whole)
