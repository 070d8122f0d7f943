"""The termination policy says while acting what it says in training, and its loss is the cross-entropy to b_i."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from compile_il.config import Config
from compile_il.data.batch import batch_of
from compile_il.data.spaces import Scaling, Space
from compile_il.inference.relaxed.objective import termination_loss, termination_losses
from compile_il.inference.relaxed.recognition import infer_all
from compile_il.inference.relaxed.skills import RelaxedSkills, Termination
from compile_il.inference.relaxed.supervision import supervision_of_batch
from tests.inference.exact.small import new_skills, vector_demos

RNG = np.random.default_rng(0)
SPACE = Space("vector", (3,), 0, 4, 0)
SCALING = Scaling(jnp.zeros(3), jnp.ones(3), jnp.zeros(0), jnp.ones(0), jnp.zeros((1, 3)), jnp.zeros(0))
CONFIG = Config(inference="relaxed", num_maps=2, hidden_dim=6).resolved()
NETWORK = Termination(CONFIG, SPACE, SCALING, key=jax.random.key(0))
FRAMES = jnp.asarray(RNG.normal(size=(8, 3)), jnp.float32)
ACTIONS = jnp.asarray(RNG.integers(0, 4, 8))
LENGTHS = jnp.array([7])


def test_acting_is_a_masked_pass() -> None:
    """From where a segment begins, what is remembered step by step is what a pass behind a hard mask gives."""
    vectors = jax.vmap(NETWORK.encoder.actions.vector)(ACTIONS)
    embedded = jax.vmap(NETWORK.encoder.embedding)(FRAMES)
    for begin in (0, 3):
        mask = (jnp.arange(8) >= begin).astype(jnp.float32)
        logits = NETWORK.logits(embedded[None], vectors[None], mask[None, None], LENGTHS)[0, 0]
        state = NETWORK.encoder.init(FRAMES[begin])
        for t in range(begin, 8):
            np.testing.assert_allclose(NETWORK.head(state.encoding), logits[t], atol=1e-5)
            assert NETWORK.done(state) == (logits[t] > 0)
            if t < 7:
                state = NETWORK.encoder.update(state, ACTIONS[t], FRAMES[t + 1])


@pytest.mark.parametrize(("logit", "done"), [(-1e-3, False), (1e-3, True)])
def test_a_skill_stops_where_that_is_more_probable_than_not(logit: float, done: bool) -> None:
    saying = eqx.tree_at(lambda network: network.head, NETWORK, lambda hidden: jnp.array(logit))
    assert bool(saying.done(saying.encoder.init(FRAMES[0]))) == done


def test_nothing_of_the_future_is_seen() -> None:
    vectors = jax.vmap(NETWORK.encoder.actions.vector)(ACTIONS)
    embedded, mask = jax.vmap(NETWORK.encoder.embedding)(FRAMES), jnp.ones((1, 1, 8))
    before = NETWORK.logits(embedded[None], vectors[None], mask, LENGTHS)[0, 0]
    after = NETWORK.logits(embedded.at[5:].set(0.0)[None], vectors.at[4:].set(0.0)[None], mask, LENGTHS)[0, 0]
    np.testing.assert_array_equal(before[:5], after[:5])
    assert (np.asarray(before[5:]) != np.asarray(after[5:])).all()


def test_passes_of_all_segments_are_made_at_once() -> None:
    """However many there are, there is one recurrence, and its rows are those of all segments."""
    embedded, vectors = jnp.zeros((4, 8, 6)), jnp.zeros((4, 8, 4))
    for num_segments in (1, 3):
        masks = jnp.ones((4, num_segments, 8))
        program = str(jax.make_jaxpr(NETWORK.logits)(embedded, vectors, masks, jnp.full(4, 7)))
        assert program.count("scan[") == 1
        assert f"f32[8,{4 * num_segments},24]" in program, "gates, one row for each segment of each demonstration"


def test_the_loss_is_a_cross_entropy() -> None:
    logits, ends, length = RNG.normal(size=(2, 8)), np.array([3, 6]), 6
    expected = sum(
        -np.log(expit(logits[i, t]) if t == ends[i] else expit(-logits[i, t]))
        for i in range(2)
        for t in range(length + 1)
    )
    arguments = jnp.asarray(logits, jnp.float32), jnp.asarray(ends), jnp.array(length)
    np.testing.assert_allclose(termination_loss(*arguments, jnp.array(2)), expected, rtol=1e-5)
    alone = termination_loss(*(part[:1] for part in arguments[:2]), arguments[2], jnp.array(1))
    np.testing.assert_allclose(termination_loss(*arguments, jnp.array(1)), alone, rtol=1e-6)


def test_its_loss_does_not_pull_at_the_recognition_model() -> None:
    """It learns the predicted boundaries, and does not make them easier to learn."""
    demos, num_segments = vector_demos(), 3
    config = Config(inference="relaxed", num_segments=num_segments, num_skills=3, hidden_dim=6).resolved()
    skills = new_skills(demos, config)
    batch = batch_of(demos.storage, 32, 9)
    lengths, supervision = jnp.asarray(batch.lengths), supervision_of_batch(batch, num_segments)

    @eqx.filter_jit
    @eqx.filter_grad
    def gradient(skills: RelaxedSkills) -> jax.Array:
        frames = skills.read(batch)
        gumbel = jax.random.gumbel(jax.random.key(1), (len(demos), num_segments, 10))
        found = infer_all(skills.recognition, frames.inputs, lengths, gumbel, supervision.ends, temperature=1.0)
        return jnp.sum(termination_losses(skills, frames, found, supervision, lengths))

    assert isinstance(skills, RelaxedSkills)
    pull = gradient(skills)
    for part in (pull.embedding, pull.action_layer, pull.norm, pull.recognition, pull.policies):
        for leaf in jax.tree.leaves(part):
            np.testing.assert_array_equal(leaf, 0.0)
    for part in (pull.termination.encoder.embedding, pull.termination.encoder.memory, pull.termination.head):
        assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(part)) > 1e-3
