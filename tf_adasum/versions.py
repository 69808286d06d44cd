"""The TensorFlow and Keras that tf_adasum is tested with.

Only data, without an import, since configure.py reads it where there is no TensorFlow yet.
"""

# The first is what requirements.txt pins and `make test` runs on; `make test-tensorflow
# VERSION=...` is for the others. docs/building.md says what passes with each.
TESTED_TENSORFLOW = ("2.21.0", "2.20.0", "2.19.1", "2.18.1", "2.17.1", "2.16.2")
# The last is that of Python 3.10; `make setup` puts it beside the first, and tests run on it.
TESTED_KERAS = ("3.15.1", "3.12.4")

# TensorFlow 2.16 is the first whose Keras is Keras 3; it takes any later Keras as well.
OLDEST_TENSORFLOW = (2, 16)
OLDEST_KERAS = (3, 12)

# For the tests, beside requirements.txt: tensorflow-datasets takes the newest tensorflow-metadata,
# which needs a newer protobuf than these versions of TensorFlow take.
_OLDER_METADATA = ("tensorflow-metadata==1.16.1",)
OTHER_REQUIREMENTS = dict.fromkeys(("2.19.1", "2.18.1", "2.17.1", "2.16.2"), _OLDER_METADATA)
