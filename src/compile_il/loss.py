"""What training minimises, in one number and in its terms."""

import functools
import operator
from typing import NamedTuple

from jaxtyping import Array, Float


class Loss(NamedTuple):
    """Of each demonstration of a batch, or of each seed, where it is the mean over its batch."""

    total: Float[Array, " _"]
    terms: dict[str, Float[Array, " _"]]
    """What it is the sum of, by name; none where it is all of one piece."""


def sum_of(terms: dict[str, Float[Array, " _"]]) -> Loss:
    """The loss that has these terms."""
    return Loss(functools.reduce(operator.add, terms.values()), terms)
