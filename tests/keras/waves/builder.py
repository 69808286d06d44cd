"""36 rows of numbers, as a builder of tensorflow_datasets."""

from __future__ import annotations

import numpy as np
import tensorflow_datasets as tfds

from tests.training.replicas import NUM_FEATURES, NUM_OUTPUTS, examples


class Waves(tfds.core.GeneratorBasedBuilder):
    """What `examples` returns."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        return self.dataset_info_from_configs(
            features=tfds.features.FeaturesDict(
                {
                    "x": tfds.features.Tensor(shape=(NUM_FEATURES,), dtype=np.float32),
                    "y": tfds.features.Tensor(shape=(NUM_OUTPUTS,), dtype=np.float32),
                }
            ),
            supervised_keys=("x", "y"),
        )

    def _split_generators(self, dl_manager):
        del dl_manager
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for index, (x, y) in enumerate(zip(*examples(36))):
            yield index, {"x": x, "y": y}
