"""JSON that every program can read: without NaN and infinities, for which it has no words."""

import json
import math
from typing import Any


def to_json(value: Any) -> str:
    """Returns a value as one line of JSON; NaN and infinities, which JSON does not know, become null."""
    return json.dumps(_finite(value), allow_nan=False)


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: _finite(entry) for name, entry in value.items()}
        case list() | tuple():
            return [_finite(entry) for entry in value]
    return value
