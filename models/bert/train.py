"""Pre-trains BERT as a masked language model with Keras `fit`, in phases of sequence length.

adasumrun -np 2 python -m models.bert.train
adasumrun -np 2 python -m models.bert.train --optimizer=lamb --reduction=mean
adasumrun -np 64 --hostfile=hosts python -m models.bert.train --config=full
"""

from __future__ import annotations

import keras
from absl import flags

import models.common.python_topics  # noqa: F401 (makes its name known)
import tf_adasum
from models.bert import network, pieces
from models.bert.schedule import WarmupThenLinear
from models.bert.settings import CONFIGURATIONS, Phase, Settings
from models.bert.text import Text, texts_of
from models.common import datasets, program, recipe, workers

FLAGS = flags.FLAGS

flags.adopt_module_key_flags(recipe)
flags.DEFINE_string("dataset", None, "With a feature text; default: --config's.")
flags.DEFINE_enum("optimizer", None, ["adam", "lamb"], "Default: --config's.")
flags.DEFINE_integer("vocabulary", None, "Most word pieces; default: --config's.", lower_bound=10)
flags.DEFINE_float("weight_decay", None, "As above.", lower_bound=0)
flags.DEFINE_bool("mixed_precision", None, "Compute in bfloat16; default: --config's.")


def main() -> None:
    """Trains the phases, evaluates after each and saves."""
    settings = recipe.configuration(CONFIGURATIONS)
    strategy = recipe.strategy()
    builder = datasets.prepared(settings.dataset, FLAGS.data_dir)
    datasets.check(builder, ["text"], [settings.split, settings.evaluated])
    texts = texts_of(builder, settings.split, settings.tokenizer_texts)
    tokenizer = pieces.train_tokenizer(texts, settings.vocabulary)
    if settings.mixed_precision:
        keras.config.set_dtype_policy("mixed_bfloat16")
    with strategy.scope():
        model = network.build(tokenizer.get_vocab_size(), settings.size)
    for phase in settings.phases:
        train(strategy, model, Text(builder, tokenizer, phase.length), settings, phase)
    recipe.save(model)


def train(
    strategy: tf_adasum.AdasumStrategy,
    model: keras.Model,
    text: Text,
    settings: Settings,
    phase: Phase,
) -> None:
    """Trains the model for a phase, with an optimizer that begins anew.

    Args:
        strategy: whose replicas train.
        model: of network.build; its weights go on.
        text: sequences of the phase's length.
        settings: how.
        phase: which.
    """
    each = max(1, settings.batch_size * settings.phases[0].length // phase.length)
    batch = each * strategy.num_replicas_in_sync
    steps = max(1, round(settings.epochs * phase.epochs * text.count(settings.split) / batch))
    with strategy.scope():
        optimizer = make_optimizer(settings, phase, steps)
        model.compile(
            tf_adasum.wrap(optimizer, mode=FLAGS.mode),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
    recipe.say(
        f"{FLAGS.reduction}: {workers.describe(strategy)} x {each} sequences of {phase.length} "
        f"pieces, {settings.optimizer} {settings.learning_rate * phase.learning_rate:g}"
    )
    model.fit(
        text.shuffled(settings.split, batch, FLAGS.seed),
        steps_per_epoch=steps,
        validation_data=text.in_order(settings.evaluated, batch),
        shuffle=False,  # the sequences are shuffled already
        verbose=recipe.verbose(),
    )


def make_optimizer(settings: Settings, phase: Phase, steps: int) -> keras.optimizers.Optimizer:
    """Returns the phase's optimizer, not wrapped: its rate grows linearly, then falls to 0.

    Args:
        settings: of the optimizer.
        phase: of its rate.
        steps: of the phase.
    """
    warmup = min(steps - 1, max(1, round(phase.warmup * steps)))
    rate = settings.learning_rate * phase.learning_rate
    schedule = WarmupThenLinear(rate, warmup, steps)
    make = {"adam": keras.optimizers.AdamW, "lamb": keras.optimizers.Lamb}[settings.optimizer]
    optimizer = make(schedule, weight_decay=settings.weight_decay)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    return optimizer


if __name__ == "__main__":
    program.run(main)
