"""BackupAndRestore: a training that was interrupted goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
import logging
import numbers
import os
from typing import Any

import keras
from typing_extensions import override

from adasumrun import requests
from tf_adasum import keras_hooks
from tf_adasum.callbacks.built_optimizers import names_of_optimizers
from tf_adasum.callbacks.learning_rates import rates_of, set_rates
from tf_adasum.callbacks.save_requests import Asked, SaveRequests
from tf_adasum.callbacks.swapped_averages import set_swapped, swapped
from tf_adasum.callbacks.training_state import restore_training, save_training
from tf_adasum.collectives.refusals import refusal, shown
from tf_adasum.keras_hooks.core import calls
from tf_adasum.keras_hooks.data import data_position

_log = logging.getLogger("tf_adasum")
_FILE = "training.h5"
_SLOTS = ("per_rank", "mean")


class BackupAndRestore(keras.callbacks.Callback):
    """Saves what a training goes on from, and goes on from it when the program is started again.

    As `keras.callbacks.BackupAndRestore`, with what that leaves out:

    * The values that each replica has of its own: slots in delta mode, micro-batches of
      `accumulate`, weights within a round of `steps_per_sync`, statistics and seeds of layers. As
      many replicas as before so get the same bits as without an interruption. Another number of
      them gets the same weights and, for what was a replica's own, the mean over the replicas
      (of integers the first replica's); rank 0 says so.
    * The batch: with save_freq=n a training that was interrupted in the midst of an epoch goes on
      with the next batch, and its logs count the whole epoch. Keras begins the epoch again:
      callbacks find the learning rate that they found then, and when all have begun that of the
      batch that was saved is set.
    * The order of the data: each epoch has the one that it would have had, if the program is
      seeded as before (`keras.utils.set_random_seed` first), from arrays, `PyDataset`s and
      `tf.data`. Where it can't be continued, rank 0 says why: a generator, for one, begins anew. A
      `fit` that was over leaves its data to a later one as it did; of an endless pipeline it reads
      nothing for that, and the later one shuffles it otherwise.
    * The file is complete or the one before: it is written under another name, brought to the
      disk, and renamed.
    * A signal: SIGTERM to adasumrun lets all ranks save after the same batch and end with exit code
      143, SIGUSR1 lets them save and go on. Without adasumrun the process itself hears them, in its
      main thread, unless the program has handlers for them. It takes about a second until the
      ranks have told each other, or 8 batches where these become slower; after an epoch's last
      batch they save at its end.

    Not in the file: the state of other callbacks (how long EarlyStopping has waited), and of
    random operations of TensorFlow and generators of Python and NumPy. Iterations, schedules, the
    learning rate, `use_ema`, the loss scale and the states of random layers of Keras are, and of
    `keras.random` where it is called without a seed, and whether a SwapEMAWeights has swapped.

    All ranks have the callback, as the last one; of several, the last one that has a file is gone
    on from. Rank 0 writes and reads; other ranks need not see its folder. Values travel there one
    variable after the other.

    Args:
        backup_dir: a folder of rank 0's, for one call of `fit` alone: of several in a program with
            one folder, a second start lets the first take what a later one has saved.
        save_freq: "epoch", or after how many batches to save, an int >= 1.
        slots: what to save of values that each replica has of its own: "per_rank" for all of them,
            "mean" for their mean, which takes less room and goes on with other bits.
        delete_checkpoint: whether to remove the file when `fit` has ended by itself.

    Raises:
        ValueError: an argument is out of range; or in `fit`, on all ranks, the file is another
            model's, or has averages that no SwapEMAWeights would take out of the model.
        SystemExit: in `fit`, on all ranks, after a save that SIGTERM asked for.
        OSError: in `fit`, on all ranks, rank 0 can't write or read the file. What was saved before
            is left.
        RuntimeError: something else than `fit` calls it.

    Example:
        >>> import tempfile, keras, tf_adasum
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile(tf_adasum.wrap(keras.optimizers.Adam()), loss="mse")
        >>> backup = tf_adasum.callbacks.BackupAndRestore(tempfile.mkdtemp(), save_freq=100)
        >>> x = keras.ops.ones((16, 1))
        >>> history = model.fit(x, x, batch_size=8, verbose=0, callbacks=[backup])
        >>> history.epoch  # of a second start after an interruption: what was left to do
        [0]

    Source: keras.callbacks.BackupAndRestore, for the interface.
    """

    stops_nothing = True  # so that ranks need not ask each other after each batch
    belongs_to_all_ranks = True  # which ranks compare when fit begins

    def __init__(
        self,
        backup_dir: str,
        save_freq: str | int = "epoch",
        slots: str = "per_rank",
        delete_checkpoint: bool = True,
    ):
        super().__init__()
        if not backup_dir or not isinstance(backup_dir, (str, os.PathLike)):
            advice = "Pass the path of one that outlives the job."
            raise ValueError(refusal("backup_dir to be a folder", shown(backup_dir), advice))
        is_number = isinstance(save_freq, numbers.Integral) and not isinstance(save_freq, bool)
        if save_freq != "epoch" and not (is_number and save_freq >= 1):
            expected, advice = "save_freq to be 'epoch' or an int from 1", "Pass one of them."
            raise ValueError(refusal(expected, shown(save_freq), advice))
        if slots not in _SLOTS:
            expected, advice = "slots to be 'per_rank' or 'mean'", "Pass one of them."
            raise ValueError(refusal(expected, shown(slots), advice))
        keras_hooks.install()  # without a strategy, too: they know where fit is in its data
        self.backup_dir = os.fspath(backup_dir)
        self.save_freq = save_freq
        self.slots = slots
        self.delete_checkpoint = delete_checkpoint
        self._data: data_position.Progress | None = None
        self._metrics: list[list] = []
        self._rates: list[float] = []  # as they were before the epoch under way began
        self._rates_in_epoch: list[float] = []  # those of the batch after which it was interrupted
        self._epoch = 0
        self._batch = 0  # of the epoch under way, those that are done
        self._since_saved = 0
        self._is_due = False
        self._ends = False  # asked to, after the next save
        self._requests: SaveRequests | None = None

    @property
    def _path(self) -> str:
        return os.path.join(self.backup_dir, _FILE)

    @override
    def on_train_begin(self, logs=None):
        self._data = self._data_of_fit()
        self._metrics, self._batch, self._since_saved, self._is_due = [], 0, 0, False
        self._rates_in_epoch = []
        self._is_restored = False
        call = calls.current()
        if call is not None:  # also when fit ends by an exception
            call.at_end.callback(self._end)
        self._hear_requests()
        self._restore()
        self._rates = rates_of(self.model)

    def _restore(self) -> None:
        restored = restore_training(self._path, self.model, self._data.iterator)
        if restored is None:
            return
        header, self._metrics = restored
        self._is_restored = True
        self.model._initial_epoch = header["epoch"]
        self._batch = header["batch"]
        self._overrule_others()
        set_swapped(header.get("swapped", []))  # older files have neither this nor rates
        if self._batch and "rates" in header:
            # The epoch begins again: what callbacks make of a rate then, they make of the same one.
            self._rates_in_epoch = rates_of(self.model)
            set_rates(self.model, header["rates"])
        why_not = self._data.resume(header["data"], self._batch)
        self._say_what_is_restored(header, why_not)

    def _overrule_others(self) -> None:
        """What callbacks before this one restored is not what fit goes on with."""
        for each in calls.callbacks():
            if isinstance(each, BackupAndRestore) and each is not self:
                each._metrics, each._rates_in_epoch, each._batch = [], [], self._batch
        call = calls.current()
        if call is not None:
            call.restored = False  # by Keras' own: each replica's slots would become rank 0's

    @override
    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch
        for variable, value in self._metrics:
            variable.assign(value)
        set_rates(self.model, self._rates_in_epoch)
        self._metrics, self._rates_in_epoch = [], []

    @override
    def on_train_batch_end(self, batch, logs=None):
        new, self._batch = batch + 1 - self._batch, batch + 1
        self._since_saved += new
        is_asked = self._note(self._requests.after(new))
        is_wanted = self.save_freq != "epoch" and self._since_saved >= self.save_freq
        if not (is_asked or is_wanted):
            return
        # After the last batch the epoch's end is near, with its logs and callbacks.
        steps = self.params.get("steps")
        self._is_due = bool(steps) and self._batch >= steps
        if not self._is_due:
            self._save(self._epoch, self._batch)
            self._end_if_asked()

    @override
    def on_epoch_end(self, epoch, logs=None):
        self._batch = 0
        self._rates = rates_of(self.model)
        # It may be the last one, after which nobody asks; or the next batch is after a validation.
        is_asked = self._note(self._requests.now())
        if self.save_freq == "epoch" or self._is_due or is_asked:
            self._save(epoch + 1, 0)
        self._end_if_asked()

    @override
    def on_train_end(self, logs=None):
        self._data.end()
        self._end()
        if self.delete_checkpoint and self._is_rank_0():
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._path)
            with contextlib.suppress(OSError):  # something else is in it, or it never was
                os.rmdir(self.backup_dir)

    def _data_of_fit(self) -> data_position.Progress:
        data = data_position.of_begun_fit()
        if data is None:
            expected = "BackupAndRestore to be called by fit, whose data it continues"
            received, advice = "a call by something else", "Pass it to fit in callbacks."
            raise RuntimeError(refusal(expected, received, advice))
        return data

    def _hear_requests(self) -> None:
        self._ends = False
        self._requests = SaveRequests(calls.communicator_of(self.model))
        self._requests.start()

    def _end(self) -> None:
        self._data = None  # the callback may live longer than what fit was given
        if self._requests is not None:
            self._requests.stop()
            if not self._ends:
                self._requests.pass_on()  # what came since the last epoch's end
        if self._is_restored:
            self.model._initial_epoch = None  # the next fit begins where it is asked to
            self._is_restored = False

    def _note(self, asked: Asked) -> bool:
        """Notes what the ranks were asked for, and returns whether it was anything."""
        self._ends = self._ends or asked == Asked.BACK_UP_AND_END
        return asked != Asked.NOTHING

    def _end_if_asked(self) -> None:
        if not self._ends:
            return
        if self._is_rank_0():
            _log.warning(
                "fit ends as it was asked to, with exit code %d: %s is what a second start goes on "
                "from.",
                *(requests.EXIT_CODE, self._path),
            )
        raise SystemExit(requests.EXIT_CODE)

    def _is_rank_0(self) -> bool:
        communicator = calls.communicator_of(self.model)
        return communicator is None or communicator.rank == 0

    def _save(self, epoch: int, batch: int) -> None:
        self._since_saved, self._is_due = 0, False
        header = {"epoch": epoch, "batch": batch, "data": self._data.position(batch > 0)}
        header.update(rates=self._rates, swapped=swapped())
        save_training(self._path, self.model, header, self.slots, in_epoch=batch > 0)

    def _say_what_is_restored(self, header: dict[str, Any], why_not: str) -> None:
        if not self._is_rank_0():
            return
        number = self.model.distribute_strategy.num_replicas_in_sync
        _log.warning(
            "fit begins: goes on with epoch %d, after %d of its batches, from %s.",
            *(header["epoch"], header["batch"], self._path),
        )
        if header["num_replicas"] != number and any(e["is_per_replica"] for e in header["state"]):
            _log.warning(
                "fit begins: %d replicas saved values of their own (slots, say); each goes on with "
                "their mean, as the number of replicas is %d now.",
                *(header["num_replicas"], number),
            )
        names = names_of_optimizers(self.model)
        if header.get("optimizer_names", names) != names:  # older files have none
            _log.warning(
                "fit begins: %s saved what %s goes on with: slots that may mean something else.",
                *(", ".join(header["optimizer_names"]), ", ".join(names)),
            )
        if why_not:
            _log.warning("fit begins: the data are not continued exactly: %s.", why_not)
