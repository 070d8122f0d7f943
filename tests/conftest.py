"""Every test runs with the jaxtyping annotations of the package checked at run time.

Compiled programs are kept, for the other worker, for processes that tests start, and for the next time. Most of them
run for less time than it takes to optimise them, so that they are not; `JAX_DISABLE_MOST_OPTIMIZATIONS=0 make test`
tests them as they are shipped.
"""

import contextlib
import ctypes
import gc
import importlib.metadata
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

CACHE = Path(__file__).parents[1] / ".cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")  # programs need no places in the code
QUICKLY = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
"""Loops written in XLA's older way compile in a third of the time, and in one piece a little faster than in many.

XLA ends the process at a flag that it does not know, so only a version that is known to have these gets them.
"""
if (
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] == "1"
    and importlib.metadata.version("jaxlib").startswith("0.10.")
    and QUICKLY not in os.environ.get("XLA_FLAGS", "")
):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICKLY}".strip()

import hypothesis  # noqa: E402 (JAX reads its settings when it is imported, by whomever)
import jax  # noqa: E402 (JAX reads its settings when it is imported)
from jaxtyping import install_import_hook  # noqa: E402 (JAX reads its settings when it is imported)

import tests.typechecker  # noqa: E402, F401 (the hook looks it up by its name)

install_import_hook(["compile_il", "experiments"], "tests.typechecker.check")

# A machine with other work to do may take any time for an example.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# A shell that starts something in the background has it ignore Ctrl-C, and all that it starts in turn; tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def optimised() -> Iterator[None]:
    """Optimised programs, where speed or the last digits count; what is compiled already stays."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture
def as_shipped() -> dict[str, str]:
    """The environment of a process whose programs are compiled as they are outside of tests."""
    flags = os.environ.get("XLA_FLAGS", "").replace(QUICKLY, "").strip()
    return os.environ | {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0", "XLA_FLAGS": flags}


def pytest_collection_finish() -> None:
    """Collects garbage seldom: tracing makes much that lives long, and what is imported stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


MOST_BYTES = 3 << 29
"""Memory of a worker above which it drops its compiled programs; each takes some, and the tests compile thousands."""


@pytest.fixture(autouse=True, scope="module")
def drop_programs() -> Iterator[None]:
    """Drops compiled programs between two files of tests where they have taken much memory."""
    yield
    statm = Path("/proc/self/statm")
    if statm.exists() and int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > MOST_BYTES:
        jax.clear_caches()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):  # glibc keeps what was freed, and only returns it on request
            ctypes.CDLL("libc.so.6").malloc_trim(0)
