"""What Keras prints is rank 0's alone, also where a program shows messages of the level INFO."""

import logging
import threading

import keras
from absl import logging as absl_logging

from tests.training.replicas import small_model, strategy
from tf_adasum.collectives.communicator import world


def test_other_ranks_log_nothing_of_it(caplog, capsys):
    strategy(1)
    with caplog.at_level(logging.INFO, logger="absl"):
        small_model().summary()
        absl_logging.info("the program's own")
    assert [record.message for record in caplog.records] == ["the program's own"]
    assert ("Total params" in capsys.readouterr().out) == (world().rank == 0)


def test_a_session_that_is_cleared_and_another_thread_are_as_quiet(capsys):
    """As where a program tries one model after the other."""
    strategy(1)
    keras.backend.clear_session()
    small_model().summary()
    thread = threading.Thread(target=small_model().summary)
    thread.start()
    thread.join()
    keras.config.enable_interactive_logging()
    asked = capsys.readouterr().out.count("Total params")
    small_model().summary()
    strategy(1)
    small_model().summary()
    assert asked == (2 if world().rank == 0 else 0)
    assert capsys.readouterr().out.count("Total params") == (2 if world().rank == 0 else 1)
