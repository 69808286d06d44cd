"""What Keras prints is rank 0's alone, also where a program shows messages of the level INFO."""

import logging

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
