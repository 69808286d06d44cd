"""Count sketches: tables that add up as their tensors do, and show where the largest values are."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf


class CountSketch:
    """A linear map of tensors of n elements to tables of r rows and c columns.

        table[j, h_j(i)] = sum of s_j(i) x_i

    With u the upper 32 bits of (a_j i + b_j) mod 2^64, the sign s_j(i) is 1 - 2 (u mod 2), and the
    column h_j(i) = floor(floor(u / 2) c / 2^31). The median over j of s_j(i) table[j, h_j(i)]
    estimates x_i. With one seed all ranks have the same a and b, so that the sum of their tables is
    the table of their sum.

    Args:
        num_elements: n, below 2^31 - 1.
        rows: r.
        columns: c.
        seed: two ints, or an int tensor [2], of which a and b are drawn; the same on all ranks.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.compression.count_sketch import CountSketch
        >>> sketch = CountSketch(1000, rows=5, columns=100)
        >>> table = sketch.table(tf.one_hot(7, 1000))
        >>> sketch.heaviest(table, 1).numpy().tolist()
        [7]

    Source: Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", 2002; the
    hashes: Dietzfelbinger, "Universal hashing and k-wise independent random variables via integer
    arithmetic without primes", STACS 1996; in trainings: Ivkin et al., "Sketched-SGD",
    arXiv:1903.04488.
    """

    def __init__(
        self,
        num_elements: int,
        rows: int,
        columns: int,
        seed: Sequence[int] | tf.Tensor = (0, 0),
    ):
        self.num_elements, self.rows, self.columns = num_elements, rows, columns
        self.seed = seed

    def factors(self) -> tf.Tensor:
        """Returns a and b of each row, int64, [r, 2]."""
        # Philox gives the same numbers on all devices.
        return tf.random.stateless_uniform(
            [self.rows, 2], self.seed, minval=None, maxval=None, dtype=tf.int64, alg="philox"
        )

    def table(self, values: tf.Tensor) -> tf.Tensor:
        """Returns the table, [r, c], of a tensor of n elements."""
        flat = tf.reshape(values, [-1])
        rows = [
            tf.math.unsorted_segment_sum(sign * flat, column, self.columns)
            for column, sign in self._hashes(flat.dtype)
        ]
        return tf.stack(rows)

    def heaviest(self, table: tf.Tensor, count: int) -> tf.Tensor:
        """Returns the places of the `count` largest estimates, int32, the largest first."""
        rows = zip(tf.unstack(table, self.rows), self._hashes(table.dtype))
        of_rows = [sign * tf.gather(row, column) for row, (column, sign) in rows]
        estimates = tf.sort(tf.stack(of_rows), axis=0)
        low, high = estimates[(self.rows - 1) // 2], estimates[self.rows // 2]
        return tf.math.top_k(tf.abs(low + high), count, sorted=True).indices

    def _hashes(self, dtype: tf.DType) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Of each row, column and sign of all places."""
        places = tf.range(self.num_elements, dtype=tf.int64)
        sums = [a * places + b for a, b in map(tf.unstack, tf.unstack(self.factors(), self.rows))]
        # int64 keeps its sign when it is shifted.
        upper = [tf.bitwise.right_shift(each, 32) & (2**32 - 1) for each in sums]
        return [
            (
                tf.cast(tf.bitwise.right_shift(bits // 2 * self.columns, 31), tf.int32),
                tf.cast(1 - 2 * (bits & 1), dtype),
            )
            for bits in upper
        ]
