"""Every test runs with the jaxtyping annotations of the package checked at run time.

Compiled programs are kept, for the other worker, for processes that tests start, and for the next time.
"""

import os
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")

from jaxtyping import install_import_hook  # noqa: E402 (JAX reads its settings when it is imported)

import tests.typechecker  # noqa: E402, F401 (the hook looks it up by its name)

install_import_hook("compile_il", "tests.typechecker.check")
