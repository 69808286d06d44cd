"""Trains a residual network with Keras `fit`, by the recipe for large batches.

adasumrun -np 2 python -m models.resnet.train
python -m models.resnet.train --workers=4 --norm=synchronized
adasumrun -np 64 --hostfile=hosts python -m models.resnet.train --config=full
"""

from __future__ import annotations

import keras
from absl import flags

import models.resnet.dataset  # noqa: F401 (makes its name known)
import tf_adasum
from models.common import datasets, program, recipe, workers
from models.resnet import network
from models.resnet.images import Images
from models.resnet.settings import CONFIGURATIONS, Settings

FLAGS = flags.FLAGS

flags.adopt_module_key_flags(recipe)
flags.DEFINE_string("dataset", None, "Of images; default: --config's.")
flags.DEFINE_string("evaluated", None, "The split that judges; default: --config's.")
flags.DEFINE_enum("optimizer", None, ["momentum", "lars"], "Default: --config's.")
flags.DEFINE_float(
    "warmup_epochs", None, "In which the rate grows; default: --config's.", lower_bound=0
)
flags.DEFINE_float("weight_decay", None, "Of the kernels; default: --config's.", lower_bound=0)
flags.DEFINE_float("label_smoothing", None, "As above.", lower_bound=0, upper_bound=1)
flags.DEFINE_bool("mixed_precision", None, "Compute in bfloat16; default: --config's.")
flags.DEFINE_enum(
    "norm",
    "ghost",
    ["ghost", "synchronized"],
    "Batch normalization over each replica's images, or over those of all.",
)


def main() -> None:
    """Trains, evaluates and saves."""
    settings = recipe.configuration(CONFIGURATIONS)
    strategy = recipe.strategy()
    builder = datasets.prepared(settings.dataset, FLAGS.data_dir)
    datasets.check(builder, ["image", "label"], ["train", settings.evaluated])
    images = Images(builder, settings.label_smoothing)
    batch = settings.batch_size * strategy.num_replicas_in_sync
    steps = max(1, images.count("train") // batch)
    if settings.mixed_precision:
        keras.config.set_dtype_policy("mixed_bfloat16")
    with strategy.scope():
        model = compiled_model(images, settings, steps)
    recipe.say(
        f"{FLAGS.reduction}: {workers.describe(strategy)} x {settings.batch_size} images, "
        f"{settings.optimizer} {settings.learning_rate:g}, "
        f"{settings.epochs} epochs of {steps} steps"
    )
    model.fit(
        images.shuffled(batch, FLAGS.seed),
        steps_per_epoch=steps,
        epochs=settings.epochs,
        validation_data=images.in_order(settings.evaluated, batch),
        shuffle=False,  # the batches are shuffled already
        verbose=recipe.verbose(),
    )
    recipe.save(model)


def compiled_model(images: Images, settings: Settings, steps_per_epoch: int) -> keras.Model:
    """Returns the model with its wrapped optimizer; call it in the strategy's scope.

    Args:
        images: what it is for.
        settings: of the network and the optimizer.
        steps_per_epoch: by which the schedule of the rate counts.
    """
    model = network.build(
        images.shape,
        images.num_classes,
        settings.depth,
        settings.weight_decay,
        FLAGS.norm == "synchronized",
    )
    warmup = round(settings.warmup_epochs * steps_per_epoch)
    rate = keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=0.0 if warmup else settings.learning_rate,
        decay_steps=max(1, settings.epochs * steps_per_epoch - warmup),
        warmup_target=settings.learning_rate if warmup else None,
        warmup_steps=warmup,
    )
    if settings.optimizer == "lars":
        # Biases and scales have few elements, whose norm says little.
        optimizer = tf_adasum.optimizers.LARS(
            rate, momentum=0.9, exclude_from_layer_adaptation=["bias", "gamma", "beta"]
        )
    else:
        optimizer = keras.optimizers.SGD(rate, momentum=0.9, nesterov=True)
    model.compile(
        tf_adasum.wrap(optimizer, mode=FLAGS.mode),
        keras.losses.CategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


if __name__ == "__main__":
    program.run(main)
