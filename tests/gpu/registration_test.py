"""What TensorFlow knows of the library's GPU kernels. Needs no GPU."""

from types import SimpleNamespace

import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import tf_adasum  # noqa: F401  (registers the ops)
from tf_adasum.collectives import native
from tf_adasum.collectives.device import exchange_device

GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def _leaves(*devices):
    return [[SimpleNamespace(device=device)] for device in devices]


@pytest.mark.parametrize(
    ("op", "on_host"),
    [
        ("AdasumAllreduce", {"communicator"}),  # its tensors stay on the device
        ("AdasumBroadcast", {"communicator", "inputs", "outputs"}),
        ("AdasumCommunicator", {"communicator"}),
    ],
)
def test_op_has_a_gpu_kernel_where_cuda_was_built(op, on_host):
    registered = kernels.get_registered_kernels_for_op(op).kernel
    on_gpu = [kernel for kernel in registered if kernel.device_type == "GPU"]
    assert len(on_gpu) == native.HAS_CUDA
    assert all(set(kernel.host_memory_arg) == on_host for kernel in on_gpu)
    assert "CPU" in {kernel.device_type for kernel in registered}


def test_gradients_on_a_gpu_are_looked_at_there_without_cuda_too():
    registered = kernels.get_registered_kernels_for_op("AdasumZerosIf").kernel
    has_streams = tuple(int(part) for part in tf.__version__.split(".")[:2]) > (2, 16)
    on_host = {kernel.device_type: set(kernel.host_memory_arg) for kernel in registered}
    assert on_host == {"CPU": set(), **({"GPU": {"is_zero"}} if has_streams else {})}


def test_tensors_are_exchanged_on_the_cpu_unless_asked(monkeypatch):
    monkeypatch.delenv("TF_ADASUM_GPU", raising=False)
    assert exchange_device(_leaves(GPU)) is None


def test_tensors_of_one_gpu_are_exchanged_there(monkeypatch):
    monkeypatch.setenv("TF_ADASUM_GPU", "1")
    monkeypatch.setattr(native, "HAS_CUDA", True)
    assert exchange_device(_leaves(GPU, GPU)) == GPU
    assert exchange_device(_leaves(GPU, GPU), "sum") is None
    assert exchange_device(_leaves(GPU, CPU)) is None
    assert exchange_device(_leaves(GPU, GPU[:-1] + "1")) is None
    assert exchange_device([[tf.constant([1.0])]]) is None


def test_a_gpu_asked_of_a_library_without_cuda(monkeypatch):
    monkeypatch.setenv("TF_ADASUM_GPU", "1")
    monkeypatch.setattr(native, "HAS_CUDA", False)
    with pytest.raises(ValueError, match="Expected a library built with CUDA"):
        exchange_device(_leaves(GPU))
