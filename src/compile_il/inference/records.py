"""What training minimises, in one number and in its terms."""

import functools
import operator
from typing import NamedTuple

from jaxtyping import Array, Float


class Loss(NamedTuple):
    """A loss and its named terms.

    Arrays have one entry for each demonstration as objectives return them, and one for each seed, averaged over its
    batch, as `Trainer.step` returns them.
    """

    total: Float[Array, " _"]
    terms: dict[str, Float[Array, " _"]]
    """Named terms that add up to the total; none where the loss has no parts."""


def sum_of(terms: dict[str, Float[Array, " _"]]) -> Loss:
    """Returns the loss that is the sum of these terms."""
    return Loss(functools.reduce(operator.add, terms.values()), terms)


class StepScores(NamedTuple):
    """What the networks say about each step of one demonstration, for each skill."""

    log_policy: Float[Array, "T K"]
    """l_k(t): how well skill k explains action t."""
    log_stop: Float[Array, "T K"]
    """log ψ_k(t): the score of skill k for stopping on arriving from step t."""
    log_go: Float[Array, "T K"]
    """log(1 - ψ_k(t)): the score of skill k for going on after step t."""
