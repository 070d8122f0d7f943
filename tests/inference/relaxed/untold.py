"""The loss of a demonstration of which nothing is told, from samples and policies that are given."""

from typing import Any

import jax

from compile_il.inference.relaxed.objective import (
    Codes,
    LossTerms,
    RelaxedSettings,
    code_losses,
    loss_terms,
    mixed_log_policy,
)
from compile_il.inference.relaxed.recognition import Inference
from compile_il.inference.relaxed.supervision import no_supervision


def untold_terms(found: Inference, log_codes: Any, log_policy: Any, length: jax.Array, **settings: Any) -> LossTerms:
    """What training adds up, with weights of one unless others are given."""
    num_segments = found.code_logits.shape[0]
    plain = {"rate": 3.0, "beta_codes": 1.0, "beta_boundaries": 1.0, "readout": "last", "boundary_term": "first"}
    chosen = RelaxedSettings(num_segments=num_segments, **(plain | settings))
    told = no_supervision(length, num_segments)
    costs = code_losses(found.code_logits, told.codes, chosen.beta_codes)
    return loss_terms(found, Codes(mixed_log_policy(log_codes, log_policy), costs), told, length, chosen)
