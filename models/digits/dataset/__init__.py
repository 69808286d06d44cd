"""scikit-learn's digits as a tensorflow_datasets data set.

The builder has a package of its own, because tensorflow_datasets looks for its description there.
"""

from models.digits.dataset.builder import Digits

__all__ = ["Digits"]
