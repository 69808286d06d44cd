"""Tests start as where neither scikit-learn nor matplotlib is installed, as on most clusters.

Keras imports both wherever it finds them: a third of the time that a rank needs to start. Python
imports this file by its name; tests/runner/pytest.bzl puts the folder on the path.
"""

import sys

sys.modules["sklearn"] = sys.modules["matplotlib"] = None
