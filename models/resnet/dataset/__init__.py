"""Ten textures as a tensorflow_datasets data set, drawn on the spot.

The builder has a package of its own, because tensorflow_datasets looks for its description there.
"""

from models.resnet.dataset.builder import Textures

__all__ = ["Textures"]
