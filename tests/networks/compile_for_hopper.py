"""Compiles the LSTM's kernels for an H200, which need not be there.

    JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1 XLA_FLAGS=--xla_gpu_autotune_level=0 python -m tests.networks.compile_for_hopper

Takes JAX's CUDA plugin (`pip install compile-il[cuda]`), with settings neither to look for a GPU nor to time anything.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from compile_il.networks.lstm_kernel import Launch, masked_passes_by_kernel

H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  shared_memory_per_block: 49152 shared_memory_per_core: 233472 shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4814258176000 l2_cache_size: 52428800 clock_rate_ghz: 1.98 device_memory_size: 149000000000
  cuda_compute_capability { major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 }
runtime_version { major: 12 minor: 8 }
device_description_str: "NVIDIA H200"
"""
HIDDEN, TIMES = 256, 43
ROWS_AND_MEMBERS = (256, 1), (256, 5), (768, 5), (21, 40)
"""One seed's batch and five seeds', those of three segments, and more teams than a GPU runs at a time."""


def main() -> None:
    """Raises if a kernel cannot be compiled."""
    [device] = topologies.get_topology_desc("h200", platform="cuda", target_config=H200, topology="1x1x1").devices
    there = NamedSharding(Mesh(np.array([device]), ("all",)), PartitionSpec())
    cell = eqx.nn.LSTMCell(1, HIDDEN, key=jax.random.key(0))

    def loss(weight: Any, projected: Any, mask: Any, num_real: Any, *, launch: Launch) -> Any:
        own = eqx.tree_at(lambda cell: cell.weight_hh, cell, weight)
        return jnp.sum(masked_passes_by_kernel(own, projected, mask, num_real, launch))

    for dtype in (jnp.float32, jnp.bfloat16):
        launch = Launch(weight_dtype=dtype, precision=jax.lax.Precision.DEFAULT)  # as it runs in training
        gradients = jax.jit(jax.vmap(jax.grad(functools.partial(loss, launch=launch), argnums=(0, 1, 2))))
        for rows, members in ROWS_AND_MEMBERS:
            shapes = (4 * HIDDEN, HIDDEN), (rows, TIMES, 4 * HIDDEN), (rows, TIMES)
            arguments = [jax.ShapeDtypeStruct((members, *shape), jnp.float32, sharding=there) for shape in shapes]
            num_real = jax.ShapeDtypeStruct((members, rows), jnp.int32, sharding=there)
            program = gradients.lower(*arguments, num_real).compile()
            gigabytes = program.memory_analysis().temp_size_in_bytes / 1e9
            print(f"{members} x {rows} rows, {dtype.__name__}: compiled, {gigabytes:.2f} GB in between", flush=True)


if __name__ == "__main__":
    main()
