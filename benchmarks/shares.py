"""Times epochs of `fit` where rank 0 is slower than the others, with equal and measured shares.

    adasumrun -np 2 python -m benchmarks.shares --json=shares.json

A layer sleeps for each row, `--slower` times as long on rank 0, so that ranks are unlike whatever
the machine. Columns: median and quartiles of the rows that all ranks together train on in a second,
over the epochs but the first two (measured shares hold from the second on); the ratio to equal
shares; the shares at the end.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json
import time

import keras
import numpy as np
from absl import app, flags
from tabulate import tabulate

import tf_adasum
from benchmarks.late import Late

FLAGS = flags.FLAGS
flags.DEFINE_float("milliseconds", 2.0, "How long a row takes on the fast ranks.")
flags.DEFINE_float("slower", 3.0, "How many times longer it takes on rank 0.")
flags.DEFINE_integer("batch", 64, "Rows of a step, of all ranks.")
flags.DEFINE_integer("steps", 20, "Steps of an epoch.", lower_bound=2)
flags.DEFINE_integer("epochs", 7, "Epochs, of which the first two are not timed.", lower_bound=3)
flags.DEFINE_string("json", None, "Where rank 0 writes all figures.")
_FEATURES = 16


class EpochTimes(keras.callbacks.Callback):
    """Seconds of each epoch."""

    def __init__(self):
        super().__init__()
        self.seconds: list[float] = []

    def on_epoch_begin(self, epoch, logs=None):
        """Begins to count."""
        self._begin = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        """Ends it."""
        self.seconds.append(time.perf_counter() - self._begin)


def main(_) -> None:
    """Trains with equal shares, then with measured ones, and compares on rank 0."""
    found = {name: _train(share) for name, share in (("equal", None), ("measured", "measured"))}
    if tf_adasum.rank() > 0:
        return
    medians = {name: np.median(rates) for name, (rates, _) in found.items()}
    rows = [
        {
            "shares": name,
            "rows a second": "{:.0f} ({:.0f} to {:.0f})".format(
                *np.quantile(rates, [0.5, 0.25, 0.75])
            ),
            "ratio": f"{medians[name] / medians['equal']:.2f}",
            "at the end": ", ".join(f"{share:.3f}" for share in shares),
        }
        for name, (rates, shares) in found.items()
    ]
    print(tabulate(rows, "keys", "github"))
    if FLAGS.json:
        with open(FLAGS.json, "w", encoding="utf-8") as file:
            json.dump({name: rates.tolist() for name, (rates, _) in found.items()}, file, indent=1)


def _train(share: str | None) -> tuple[np.ndarray, list[float]]:
    """Rows a second of each timed epoch, and the shares at the end."""
    strategy = tf_adasum.AdasumStrategy(batch_share=share)
    factor = FLAGS.slower if tf_adasum.rank() == 0 else 1.0
    with strategy.scope():
        row = FLAGS.milliseconds * factor / 1000
        layers = [keras.Input((_FEATURES,)), Late(lambda step, num_rows: row * num_rows)]
        model = keras.Sequential([*layers, keras.layers.Dense(1)])
        model.compile(tf_adasum.wrap(keras.optimizers.SGD(0.01)), loss="mse")
    rows = FLAGS.steps * FLAGS.batch
    x = np.random.default_rng(0).normal(size=(rows, _FEATURES)).astype(np.float32)
    times = EpochTimes()
    model.fit(x, x[:, :1], FLAGS.batch, epochs=FLAGS.epochs, verbose=0, callbacks=[times])
    return rows / np.array(times.seconds[2:]), strategy.batch_shares


if __name__ == "__main__":
    app.run(main)
