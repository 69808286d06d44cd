"""The resources by which TensorFlow's ops find a group, and keep the order of a graph."""

from __future__ import annotations

import tensorflow as tf

from tf_adasum.collectives import native


class Handles:
    """Those of one group.

    TensorFlow keeps the order of a graph's ops that take one and the same handle.

    Args:
        number: of the group, by which an op finds it for as long as somebody has it.
    """

    def __init__(self, number: int):
        self._number = number
        self._made: dict[tuple[str, str | None], tf.Tensor] = {}  # by device and name

    def get(self, owner: object, device: str, name: str | None = None) -> tf.Tensor:
        """Returns the first input of an op.

        Args:
            owner: keeps the group; a graph that is being made keeps it.
            device: an op runs where its handle was made, such as "CPU:0".
            name: of operations that keep the order among each other alone; None: among all that
                have none.
        """
        key = device, name
        if tf.executing_eagerly() and key in self._made:
            return self._made[key]
        _keep_with_graph(owner)
        with tf.init_scope():
            if not tf.executing_eagerly():
                # In a tf.Graph of TensorFlow 1, one for each op.
                _keep_with_graph(owner)
                return self._new(device)
            # Eager: one handle for all graphs, also of two threads that trace for the first time.
            # It orders the ops inside each of them.
            if key not in self._made:
                self._made.setdefault(key, self._new(device))
            return self._made[key]

    def _new(self, device: str) -> tf.Tensor:
        with tf.device(device):
            return native.ops.adasum_communicator(id=self._number)


def _keep_with_graph(owner: object) -> None:
    if not tf.executing_eagerly():
        graph = tf.compat.v1.get_default_graph()
        graph._adasum_groups = {*getattr(graph, "_adasum_groups", ()), owner}
