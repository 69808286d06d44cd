"""Signals that ask one rank to save: all ranks do, after the same batch."""

from __future__ import annotations

import faulthandler
import os
import signal
import threading
import time
import types

import keras
import numpy as np
import pytest

from tests.training.replicas import LOCAL, barrier, everywhere, shared_path
from tests.training.resumed import (
    STEPS,
    Interrupt,
    Interruption,
    adam,
    backup,
    begun,
    check_same,
    fit,
)
from tf_adasum.callbacks import save_requests
from tf_adasum.collectives.communicator import world


@pytest.fixture(autouse=True)
def nobody_else_hears():
    """C code keeps the signals that it catches: LLVM does, under Bazel, once XLA has compiled."""
    for number in save_requests.heard_signals():
        signal.signal(number, signal.SIG_DFL)


class AskOneRank(keras.callbacks.Callback):
    """Asks the last rank by a signal, in the midst of a batch, and notes where this rank saves."""

    stops_nothing = True

    def __init__(self, backup, number, after):
        super().__init__()
        self._backup, self._number, self._after = backup, number, after
        self.batches, self.saves = 0, []
        save = backup._save
        backup._save = lambda *place: (self.saves.append((self.batches, *place)), save(*place))

    def on_train_batch_begin(self, batch, logs=None):
        self.batches += 1
        if self.batches == self._after and world().rank == world().size - 1:
            os.kill(os.getpid(), self._number)
            while not self._backup._requests._mine:  # Python hears it between two operations
                time.sleep(0.001)


def _asking(folder, asked, after):
    numbers = [key for key, value in save_requests.heard_signals().items() if value == asked]
    number = numbers[-1]  # SIGTERM, of two that end
    callback = backup(folder, save_freq=1000)
    return callback, AskOneRank(callback, number, after), number


@pytest.mark.long
def test_one_rank_that_is_asked_lets_all_save_after_the_same_batch(monkeypatch):
    """The first time they go on, the second time, after an epoch's last batch, they end."""
    monkeypatch.setattr(save_requests, "_SECONDS_BETWEEN", 0.0)
    straight, data = begun(LOCAL[-1], adam)
    fit(straight, data)
    folder = shared_path("backup")
    first, data = begun(LOCAL[-1], adam)
    callback, ask, number = _asking(folder, save_requests.Asked.BACK_UP, 2)
    with pytest.raises(Interruption):
        fit(first, data, ask, callback, Interrupt(4))
    barrier()
    assert signal.getsignal(number) == signal.SIG_DFL
    assert everywhere(np.array(ask.saves)).tolist() == [[[2, 0, 2]]] * world().size
    second, data = begun(LOCAL[-1], adam)
    callback, ask, number = _asking(folder, save_requests.Asked.BACK_UP_AND_END, 2 * STEPS - 2)
    with pytest.raises(SystemExit) as ended:
        fit(second, data, ask, callback)
    assert ended.value.code == 143
    barrier()
    assert everywhere(np.array(ask.saves)).tolist() == [[[2 * STEPS - 2, 2, 0]]] * world().size
    resumed, data = begun(LOCAL[-1], adam)
    assert fit(resumed, data, backup(folder)).epoch == [2, 3]
    check_same(resumed, straight)


def test_ranks_ask_each_other_once_a_second(monkeypatch):
    """Batches take 1 ms, then half a second; rank 0's clock counts, and 8 are the most."""
    now = [0.0]
    clock = types.SimpleNamespace(monotonic=lambda: now[0] * (world().rank + 1))
    monkeypatch.setattr(save_requests, "time", clock)
    requests = save_requests.SaveRequests(world())
    asked, ask = [], requests._ask
    requests._ask = lambda: (asked.append(batch), ask())[1]
    for batch in range(1, 38):
        now[0] += 0.001 if batch < 24 else 0.5
        assert requests.after(1) == save_requests.Asked.NOTHING
    assert asked == [1, 3, 7, 15, 23, 31, 33, 35, 37]


class _Ask(keras.callbacks.Callback):
    """Asks the last rank to end where fit is at a turn."""

    stops_nothing = True

    def __init__(self, turn):
        super().__init__()
        setattr(self, turn, self._ask)

    def _ask(self, batch_or_epoch, logs=None):
        if world().rank == world().size - 1:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("turn", ["on_train_batch_end", "on_test_batch_end", "on_epoch_end"])
def test_who_is_asked_when_nobody_asks_any_more_ends_with_the_epoch(monkeypatch, turn):
    """After the batch they ask each other a last time, in validation, and after that."""
    monkeypatch.setattr(save_requests.SaveRequests, "after", lambda *_: save_requests.Asked.NOTHING)
    folder = shared_path("backup")
    model, data = begun(LOCAL[-1], adam)
    given = {**data, "validation_data": (data["x"], data["y"]), "epochs": 1, "verbose": 0}
    with pytest.raises(SystemExit) as ended:
        model.fit(**given, callbacks=[_Ask(turn), backup(folder, save_freq=1000)])
    assert ended.value.code == 143
    barrier()
    later, data = begun(LOCAL[-1], adam)
    assert fit(later, data, backup(folder), epochs=2).epoch == [1]


def test_a_request_that_comes_when_fit_is_over_ends_the_process():
    """As one that comes an instant later; one to go on is dropped, and a handler left to act."""
    ended = []
    for number in (signal.SIGTERM, signal.SIGUSR1):
        child = os.fork()
        if not child:
            try:
                requests = save_requests.SaveRequests(None)
                requests.start()
                os.kill(os.getpid(), number)
                requests.stop()
                requests.pass_on()
            finally:
                os._exit(3)
        ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    assert ended == [-signal.SIGTERM, 3]


def test_a_handler_of_c_code_stays(tmp_path):
    """Python's `signal` does not know of it."""
    with open(tmp_path / "stacks", "w+") as stacks:
        faulthandler.register(signal.SIGUSR1, file=stacks)
        try:
            model, data = begun(LOCAL[-1], adam)
            model.fit(**data, verbose=0, callbacks=[backup(shared_path("backup"))])
            os.kill(os.getpid(), signal.SIGUSR1)
        finally:
            faulthandler.unregister(signal.SIGUSR1)
        stacks.seek(0)
        assert "test_a_handler_of_c_code_stays" in stacks.read()


def test_no_backup_on_a_signal_that_c_code_catches_is_told_once(caplog):
    save_requests._tell_of_c_code.cache_clear()  # other cases may have been told before
    with open(os.devnull, "w") as nowhere:
        faulthandler.register(signal.SIGTERM, file=nowhere)
        try:
            model, data = begun(LOCAL[-1], adam)
            for _ in range(2):
                model.fit(**data, verbose=0, callbacks=[backup(shared_path("backup"))])
        finally:
            faulthandler.unregister(signal.SIGTERM)
            save_requests._tell_of_c_code.cache_clear()
    said = caplog.text.count("C code catches SIGTERM: no backup is made on it")
    assert said == (world().rank == 0)


class _Fail(keras.callbacks.Callback):
    stops_nothing = True

    def on_train_batch_end(self, batch, logs=None):
        signal.raise_signal(signal.SIGTERM)
        raise ConnectionError("of the program's own")


def test_a_request_is_passed_on_where_fit_ends_by_an_exception(monkeypatch, caplog):
    """The exception is told before the process ends."""
    passed = []
    monkeypatch.setattr(os, "kill", lambda process, number: passed.append((process, number)))
    model, data = begun(LOCAL[-1], adam)
    with pytest.raises(ConnectionError):
        model.fit(**data, verbose=0, callbacks=[_Fail(), backup(shared_path("backup"))])
    assert passed == [(os.getpid(), signal.SIGTERM)]
    assert "SIGTERM ends this process, whose fit has failed:" in caplog.text
    assert "ConnectionError: of the program's own" in caplog.text


def test_a_rank_of_adasumrun_hears_what_is_sent_to_all_processes():
    heard = save_requests.heard_signals({"TF_ADASUM_RESTARTS": "0"})
    assert heard[signal.SIGUSR1] == save_requests.Asked.BACK_UP
    assert heard[signal.SIGTERM] == save_requests.Asked.BACK_UP_AND_END


def _fork_and_end(ended):
    """Adds how a child ends that is sent SIGTERM at once, and would end by itself later."""
    child = os.fork()
    if not child:
        time.sleep(10)
        os._exit(3)
    os.kill(child, signal.SIGTERM)
    ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def test_what_a_rank_has_forked_is_ended_by_sigterm():
    """As a multiprocessing.Pool ends its own, early too; the rank hears on, with its handlers."""
    requests, ended = save_requests.SaveRequests(None), []
    requests.start()
    try:
        for _ in range(5):
            _fork_and_end(ended)
        thread = threading.Thread(target=_fork_and_end, args=[ended])
        thread.start()
        thread.join()
        os.kill(os.getpid(), signal.SIGTERM)
        assert requests.after(1) == save_requests.Asked.BACK_UP_AND_END
    finally:
        requests.stop()
    assert ended == [-signal.SIGTERM] * 6
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_handler_that_is_set_later_stays():
    requests = save_requests.SaveRequests(None)
    requests.start()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    requests.stop()
    handler = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    assert handler == signal.SIG_IGN
