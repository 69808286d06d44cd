"""What each rank sends, and in how many messages, is what the model of cost predicts."""

import os

import pytest
import tensorflow as tf

import tf_adasum as adasum
from adasumrun import timeline
from tf_adasum.advise.cost import Model
from tf_adasum.advise.machine import Cluster, load

LISTS = {
    "short": [1000],
    "ragged": [1000, 65, 0, 333, 2000],
    # Two blocks, or a message where no memory is shared.
    "blocks": [16000] * 32,
}


def _counted(communicator_options, folder, **arguments):
    """Bytes and messages that this rank sends for each list."""
    # The model is of packed tensors.
    packed = {"zero_copy": False, "cross_memory": False}
    options = {**packed, **communicator_options, "timeline": str(folder / "trace")}
    communicator = adasum.world().split(color=0, options=options)
    for name, sizes in LISTS.items():
        tensors = [tf.ones([size]) for size in sizes]
        adasum.allreduce(tensors, communicator=communicator, name=name, **arguments)
    communicator.close()  # which ends its timeline
    (written,) = folder.iterdir()
    events = timeline.read(written)
    num_bytes = dict(timeline.sent_bytes(events))
    for event in events:
        if "bytes" in event.get("args", {}):
            event["args"]["bytes"] = int(event["args"]["bytes"] > 0)
    return {name: (num_bytes[name], count) for name, count in timeline.sent_bytes(events)}


def _predicted(cluster, method, **arguments):
    model = Model(cluster, load())
    predicted = {name: getattr(model, method)(sizes, **arguments) for name, sizes in LISTS.items()}
    rank = adasum.rank()
    return {name: (each.sent_bytes[rank], each.messages[rank]) for name, each in predicted.items()}


def _cores():
    return len(os.sched_getaffinity(0))


@pytest.mark.parametrize("reduction", ["adasum", "sum"])
@pytest.mark.parametrize("shares_memory", [True, False])
def test_flat(shares_memory, reduction, tmp_path):
    hosts = 1 if shares_memory else adasum.size()
    cluster = Cluster(hosts, adasum.size() // hosts, _cores())
    counted = _counted({"shared_memory": shares_memory}, tmp_path, reduction=reduction)
    assert counted == _predicted(cluster, "flat", reduction=reduction)


def test_hierarchical(tmp_path, monkeypatch):
    """Two hosts, or as many as there are ranks."""
    size = adasum.size()
    hosts = 2 if size % 2 == 0 else size
    monkeypatch.setenv("TF_ADASUM_HOST", str(adasum.rank() * hosts // size))
    counted = _counted({}, tmp_path, local_reduction="sum")
    assert counted == _predicted(Cluster(hosts, size // hosts, _cores()), "hierarchical")
