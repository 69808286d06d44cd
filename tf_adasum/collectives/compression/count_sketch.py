"""Count sketches: tables that add up as their tensors do, and show where the largest values are."""

from __future__ import annotations

import tensorflow as tf

# Of the hashes: a prime above all places.
PRIME = 2**31 - 1


class CountSketch:
    """A linear map of tensors of n elements to tables of r rows and c columns.

        table[j, h_j(i)] = sum of s_j(i) x_i,   h_j(i) = floor(((a_j i + b_j) mod p) c / 2^31),
        s_j(i) = 1 - 2 (((a'_j i + b'_j) mod p) mod 2),   p = 2^31 - 1

    The median over j of s_j(i) table[j, h_j(i)] estimates x_i. All ranks have the same a and b, so
    that the sum of their tables is the table of their sum.

    Args:
        num_elements: n, below 2^31 - 1.
        rows: r.
        columns: c.

    Example:
        >>> import tensorflow as tf
        >>> from tf_adasum.collectives.compression.count_sketch import CountSketch
        >>> sketch = CountSketch(1000, rows=5, columns=100)
        >>> table = sketch.table(tf.one_hot(7, 1000))
        >>> sketch.heaviest(table, 1).numpy().tolist()
        [7]

    Source: Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", 2002; in
    trainings: Ivkin et al., "Sketched-SGD", arXiv:1903.04488.
    """

    def __init__(self, num_elements: int, rows: int, columns: int):
        self.num_elements, self.rows, self.columns = num_elements, rows, columns
        self._factors = _drawn_factors(rows)

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
        return [
            (
                tf.cast((a * places + b) % PRIME * self.columns // 2**31, tf.int32),
                tf.cast(1 - 2 * ((of_sign * places + shift) % PRIME % 2), dtype),
            )
            for a, b, of_sign, shift in self._factors
        ]


def _drawn_factors(rows: int) -> list[list[int]]:
    """Four of each row, from 1 to p - 1, by SplitMix64: those of cc/compression/sketch_hashes.h."""
    state, mask = 0, 2**64 - 1
    factors = []
    for _ in range(4 * rows):
        state = (state + 0x9E3779B97F4A7C15) & mask
        x = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ x >> 27) * 0x94D049BB133111EB) & mask
        factors.append((x ^ x >> 31) % (PRIME - 1) + 1)
    return [factors[row : row + 4] for row in range(0, 4 * rows, 4)]
