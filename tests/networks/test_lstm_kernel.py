"""The fused LSTM against the scan, values and every gradient: interpreted and, on a Hopper GPU, as it runs."""

import functools
import os
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from compile_il.networks import lstm, lstm_kernel
from compile_il.networks.lstm import on_hopper, project
from compile_il.networks.lstm_kernel import Launch, masked_passes_by_kernel, suits
from tests.inference.relaxed.single import encode
from tests.networks.gpu_of_threads import Gpu

TIMES, INPUT, HIDDEN = 4, 3, 32
CUDA_PLUGINS = "jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13"
ROWS = 21  # two blocks, of which one is not full


def has_cuda_plugin() -> bool:
    return find_spec("jax_plugins") is not None and any(find_spec(name) is not None for name in CUDA_PLUGINS)


def example(rows: int, *, hidden: int = HIDDEN, seed: int = 0) -> tuple[eqx.nn.LSTMCell, jax.Array, jax.Array]:
    """A cell, inputs and a mask that is soft in places, shut in others and open in the rest."""
    cell_key, input_key, mask_key = jax.random.split(jax.random.key(seed), 3)
    mask = jnp.clip(jax.random.uniform(mask_key, (rows, TIMES), minval=-0.3, maxval=1.3), 0.0, 1.0)
    return eqx.nn.LSTMCell(INPUT, hidden, key=cell_key), jax.random.normal(input_key, (rows, TIMES, INPUT)), mask


def by_kernel(cell: Any, inputs: Any, mask: Any, *, num_real: Any = None, **launch: Any) -> Any:
    num_real = jnp.full(mask.shape[:1], mask.shape[1]) if num_real is None else num_real
    launch = {"weight_dtype": cell.weight_hh.dtype, "interpret": True} | launch
    return masked_passes_by_kernel(cell, project(cell, inputs), mask, num_real, Launch(**launch))


def by_scan(cell: Any, inputs: Any, mask: Any) -> Any:
    return jax.vmap(encode, (None, 0, 0))(cell, inputs, mask)


def call_at_once(kernel: Any, weight: Any, by_rows: Any, outs: Any, launch: Any) -> Any:
    """Of one cell, with arrays that are there already, which `vmap` and `jit` would hide."""
    return [x[0] for x in lstm_kernel._run(kernel, tuple(x[None] for x in (weight, *by_rows)), outs, launch)]


@functools.partial(jax.jit, static_argnums=0)
def values_and_gradients(function: Any, cell: Any, inputs: Any, mask: Any) -> Any:
    """Of a sum that weights every encoding differently."""

    def loss(arguments: Any) -> Any:
        encodings = function(*arguments)
        return jnp.sum(
            jnp.sin(encodings + jnp.arange(encodings.size, dtype=jnp.float32).reshape(encodings.shape))
        ), encodings

    (_, encodings), gradients = jax.value_and_grad(loss, has_aux=True)((cell, inputs, mask))
    return encodings, gradients


def assert_close(one: Any, other: Any, **tolerances: float) -> None:
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, **{"rtol": 1e-4, "atol": 1e-5, **tolerances})


def test_kernels_agree_with_the_scan() -> None:
    arguments = example(1, hidden=256)
    encodings, gradients = values_and_gradients(by_kernel, *arguments)
    expected, expected_gradients = values_and_gradients(by_scan, *arguments)
    assert encodings.shape == (1, TIMES, 256)
    assert_close(encodings, expected)
    assert_close(gradients, expected_gradients)


def test_members_with_their_own_weights_and_data_run_together() -> None:
    members = [example(ROWS, seed=seed) for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
    found = jax.vmap(functools.partial(values_and_gradients, by_kernel))(*stacked)
    for i, member in enumerate(members):
        assert_close(jax.tree.map(lambda x, i=i: x[i], found), values_and_gradients(by_scan, *member))


def test_members_may_share_weights_and_ask_for_no_gradients() -> None:
    cell, inputs, mask = example(10)
    inputs, mask = inputs.reshape(2, 5, TIMES, INPUT), mask.reshape(2, 5, TIMES)
    found, expected = (jax.jit(jax.vmap(f, (None, 0, 0)))(cell, inputs, mask) for f in (by_kernel, by_scan))
    assert_close(found, expected)


def test_members_of_members_run_together() -> None:
    cell, inputs, mask = example(8)
    inputs, mask = inputs.reshape(2, 2, 2, TIMES, INPUT), mask.reshape(2, 2, 2, TIMES)
    found, expected = (
        jax.jit(jax.vmap(jax.vmap(f, (None, 0, 0)), (None, 0, 0)))(cell, inputs, mask) for f in (by_kernel, by_scan)
    )
    assert_close(found, expected)


@pytest.mark.parametrize(("hidden", "team"), [(32, 1), (64, 4), (256, 4)])
def test_teams_at_a_single_time(hidden: int, team: int) -> None:
    """Interpreted programs run one after the other, so that none can wait for another; at one time none has to."""

    by_team = functools.partial(by_kernel, team=team)
    cell, inputs, mask = example(ROWS, hidden=hidden)
    arguments = cell, inputs[:, :1], mask[:, :1]
    assert_close(values_and_gradients(by_team, *arguments), values_and_gradients(by_scan, *arguments))


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """Runs as few programs at a time as a team of four has, the least with which none is stuck."""
    gpu = Gpu(num_slots=4, seed=0)
    for name in ("atomic_add", "load", "approx_tanh", "CompilerParams"):
        monkeypatch.setattr(lstm_kernel, name, getattr(gpu, name))
    monkeypatch.setattr(lstm_kernel.pl, "pallas_call", gpu.pallas_call)
    monkeypatch.setattr(lstm_kernel, "_call", call_at_once)
    return gpu


by_two_teams = functools.partial(by_kernel, rows=16, team=4, interpret=False)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_teams_wait_for_each_other(dtype: Any, gpu: Gpu) -> None:
    """Programs are threads that start in any order, and the rows of the second team end sooner."""
    num_real = 2 + jnp.arange(ROWS) % (TIMES - 1)
    real = (jnp.arange(TIMES) < num_real[:, None])[..., None]

    def by_teams(cell: Any, inputs: Any, mask: Any) -> Any:
        encodings = by_two_teams(cell, inputs, mask, num_real=num_real, weight_dtype=dtype)
        return jnp.where(real, encodings, 0.0 * encodings)

    def by_cut_scan(cell: Any, inputs: Any, mask: Any) -> Any:
        return jnp.where(real, by_scan(cell, inputs, mask), 0.0)

    arguments = example(ROWS)
    encodings, gradients = values_and_gradients.__wrapped__(by_teams, *arguments)
    assert gpu.num_launches == 2
    assert gpu.num_waits > 0
    expected, expected_gradients = values_and_gradients(by_cut_scan, *arguments)
    rough = {} if dtype == jnp.float32 else {"rtol": 2e-2, "atol": 5e-2}
    assert_close(encodings, expected, **rough)
    assert_close(gradients, expected_gradients, **rough)


@pytest.mark.parametrize("wrong", [jnp.inf, -jnp.inf, jnp.nan])
def test_nobody_waits_for_numbers_that_are_none(wrong: float, gpu: Gpu) -> None:
    """Training that diverges is to say so rather than to hang: programs wait while they read infinity."""
    cell, inputs, mask = example(ROWS)
    encodings, back = jax.vjp(by_two_teams, cell, inputs, jnp.ones_like(mask))
    gradients = back(jnp.full_like(encodings, wrong))
    assert gpu.num_launches == 2
    assert not all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@pytest.mark.parametrize("rows", [16, 64])
def test_teams_may_take_any_number_of_rows(rows: int) -> None:
    by_rows = functools.partial(by_kernel, rows=rows)
    arguments = example(ROWS, hidden=64)
    assert_close(values_and_gradients(by_rows, *arguments), values_and_gradients(by_scan, *arguments))


@pytest.mark.parametrize("rows", [16, 32])
def test_rows_end_at_different_times(rows: int) -> None:
    """What stands behind their ends is finite, and neither has an influence nor is influenced."""
    num_real = jnp.arange(ROWS) % (TIMES + 1)
    real = (jnp.arange(TIMES) < num_real[:, None])[..., None]

    def by_real(cell: Any, inputs: Any, mask: Any) -> Any:
        encodings = by_kernel(cell, inputs, mask, num_real=num_real, rows=rows)
        return jnp.where(real, encodings, 0.0 * encodings)  # not a number, if that is what stands there

    def cut_scan(cell: Any, inputs: Any, mask: Any) -> Any:
        return jnp.where(real, by_scan(cell, inputs, mask), 0.0)

    arguments = example(ROWS)
    assert_close(values_and_gradients(by_real, *arguments), values_and_gradients(cut_scan, *arguments))


@pytest.mark.skipif(not on_hopper(), reason="needs a Hopper GPU")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize(("rows", "num_members"), [(256, 1), (256, 5), (768, 5), (21, 40)])
def test_teams_on_a_gpu(rows: int, num_members: int, dtype: Any) -> None:
    """Teams of four and eight, with few rows and with many, more programs than run at a time, and ends that differ."""

    def by_teams(cell: Any, inputs: Any, mask: Any) -> Any:
        launch = {"weight_dtype": dtype, "precision": jax.lax.Precision.DEFAULT}  # as it runs in training
        encodings = by_kernel(cell, inputs, mask, num_real=num_real, interpret=False, **launch)
        return jnp.where(real, encodings, 0.0 * encodings)

    def by_cut_scan(cell: Any, inputs: Any, mask: Any) -> Any:
        return jnp.where(real, by_scan(cell, inputs, mask), 0.0)

    num_real = jnp.arange(rows) % TIMES + 1
    real = (jnp.arange(TIMES) < num_real[:, None])[..., None]

    arguments = jax.vmap(lambda seed: example(rows, hidden=256, seed=seed))(jnp.arange(num_members))
    scan = jax.vmap(functools.partial(values_and_gradients, by_cut_scan))
    with jax.default_matmul_precision("highest"):  # of all products that are not the kernel's
        expected = scan(*arguments)
        found = jax.vmap(functools.partial(values_and_gradients, by_teams))(*arguments)
    with jax.default_matmul_precision("tensorfloat32"):  # as tensor cores round the kernel's factors
        rounded = scan(*arguments)
    leaves = (jax.tree.leaves(each) for each in (found, expected, rounded))
    for one, other, rough in zip(*leaves, strict=True):
        size = np.abs(other).max()
        allowed = 2e-2 * size if dtype == jnp.bfloat16 else 2 * np.abs(rough - other).max() + 1e-5 * size
        assert np.abs(one - other).max() <= allowed


@pytest.mark.skipif(not has_cuda_plugin(), reason="needs JAX's CUDA plugin, and no GPU")
def test_kernels_compile_for_hopper() -> None:
    settings = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "XLA_FLAGS": "--xla_gpu_autotune_level=0"}
    program = [sys.executable, "-m", "tests.networks.compile_for_hopper"]
    run = subprocess.run(program, check=False, env=os.environ | settings, capture_output=True, text=True)
    assert run.stdout.count("compiled") == 8, run.stderr


def test_bfloat16_products_are_near() -> None:
    in_bfloat16 = functools.partial(by_kernel, weight_dtype=jnp.bfloat16)
    arguments = example(ROWS)
    encodings, gradients = values_and_gradients(in_bfloat16, *arguments)
    expected, expected_gradients = values_and_gradients(by_scan, *arguments)
    assert encodings.dtype == jnp.float32
    assert_close(encodings, expected, atol=1e-2)
    assert_close(gradients, expected_gradients, rtol=2e-2, atol=5e-2)
    assert np.abs(encodings - expected).max() > 1e-6


@pytest.mark.parametrize(("hidden", "expected"), [(5, False), (8, False), (16, True), (48, False), (512, False)])
def test_sizes_that_suit(hidden: int, expected: bool) -> None:
    assert suits(eqx.nn.LSTMCell(INPUT, hidden, key=jax.random.key(0))) == expected


def chosen(cell: Any, inputs: Any, mask: Any) -> str:
    def run(cell: Any, inputs: Any, mask: Any) -> Any:
        return lstm.masked_passes(cell, project(cell, inputs), mask, jnp.full(mask.shape[:1], TIMES))

    return "kernel" if "pallas_call" in str(jax.make_jaxpr(run)(cell, inputs, mask)) else "scan"


def test_the_kernel_is_chosen_where_device_and_size_suit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(*example(2)) == ("kernel" if on_hopper() else "scan")
    monkeypatch.setattr(lstm, "on_hopper", lambda: True)
    assert chosen(*example(2)) == "kernel"
    assert chosen(*example(2, hidden=48)) == "scan"


def test_without_what_the_kernel_is_written_in_the_scan_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm, "on_hopper", lambda: True)
    monkeypatch.delattr("compile_il.networks.lstm_kernel")
    monkeypatch.delitem(sys.modules, "compile_il.networks.lstm_kernel")
    monkeypatch.setitem(sys.modules, "jax.experimental.pallas.triton", None)
    assert chosen(*example(2)) == "scan"


def test_more_than_the_kernels_can_count_is_refused() -> None:
    """Nothing is computed: shapes are enough."""
    rows, times = 1 << 14, 1 << 9
    cell, inputs, mask = jax.eval_shape(lambda: example(1, hidden=256))
    inputs = jax.ShapeDtypeStruct((rows, times, INPUT), inputs.dtype)
    mask = jax.ShapeDtypeStruct((rows, times), mask.dtype)
    with pytest.raises(ValueError, match=r"1 x 16384 rows of 512 times are too many .* make batch_size smaller"):
        jax.eval_shape(by_kernel, cell, inputs, mask)


def test_inputs_may_be_halved() -> None:
    """As networks in half precision give them; encodings then have their type, and states in between do not."""
    cell, inputs, mask = example(ROWS)
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16) if eqx.is_inexact_array(leaf) else leaf, (cell, inputs))
    assert by_kernel(*half, mask).dtype == by_scan(*half, mask).dtype == jnp.bfloat16
    expected = values_and_gradients(by_scan, cell, inputs, mask)
    for found in (values_and_gradients(by_kernel, *half, mask), values_and_gradients(by_scan, *half, mask)):
        for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert np.abs(one.astype(jnp.float32) - other).max() <= 2e-2 * np.abs(other).max()
