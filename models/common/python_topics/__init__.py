"""Python's own help texts as a tensorflow_datasets data set: English that needs no network.

The builder has a package of its own, because tensorflow_datasets looks for its description there.
"""

from models.common.python_topics.builder import PythonTopics

__all__ = ["PythonTopics"]
