"""A corpus with planted analogies as a tensorflow_datasets data set.

The builder has a package of its own, because tensorflow_datasets looks for its description there.
"""

from models.word2vec.dataset.builder import PlantedAnalogies

__all__ = ["PlantedAnalogies"]
