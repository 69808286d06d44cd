"""Trains word vectors with Keras `fit`, and asks them for analogies.

    adasumrun -np 2 python -m models.word2vec.train
    adasumrun -np 2 python -m models.word2vec.train --dataset=python_topics --epochs=5
    adasumrun -np 32 --hostfile=hosts python -m models.word2vec.train --config=full

What is saved takes words and returns their vectors.
"""

from __future__ import annotations

import os

import keras
import numpy as np
from absl import flags

import models.common.python_topics
import models.word2vec.dataset  # noqa: F401 (both make their names known)
import tf_adasum
from models.common import datasets, program, recipe, workers
from models.word2vec import analogies, corpus, network
from models.word2vec.settings import CONFIGURATIONS, Settings
from models.word2vec.skip_grams import SkipGrams

FLAGS = flags.FLAGS
_SHOWN_WORDS, _SHOWN_NEAREST = 4, 5

flags.adopt_module_key_flags(recipe)
flags.DEFINE_string("dataset", None, "With a feature text; default: --config's.")
flags.DEFINE_string("split", None, "Of the data set, e.g. train[:10%]; default: --config's.")
flags.DEFINE_integer("dimension", None, "Of a vector; default: --config's.", lower_bound=1)
flags.DEFINE_integer(
    "window", None, "Largest distance of a pair; default: --config's.", lower_bound=1
)
flags.DEFINE_integer("negatives", None, "Of each pair; default: --config's.", lower_bound=1)
flags.DEFINE_integer(
    "min_count", None, "Rarer words are left out; default: --config's.", lower_bound=1
)
flags.DEFINE_float(
    "subsampling", None, "Of frequent words; 0: none; default: --config's.", lower_bound=0
)
flags.DEFINE_string("questions", None, "File of analogies, four words a line; default: own ones.")
# It is read once the text has been.
flags.register_validator(
    "questions",
    lambda path: path is None or os.path.isfile(path),
    message="expected a file that there is.",
)


def main() -> None:
    """Trains, asks for analogies and saves."""
    settings = recipe.configuration(CONFIGURATIONS)
    strategy = recipe.strategy()
    builder = datasets.prepared(settings.dataset, FLAGS.data_dir)
    datasets.check(builder, ["text"], [settings.split])
    text = corpus.read(corpus.texts_of(builder, settings.split), settings.min_count)
    questions = analogies.read(FLAGS.questions) if FLAGS.questions else analogies.of_families()
    model = train(strategy, text, settings)
    vectors = model.get_layer("vectors").embeddings.numpy()
    report(vectors, text.vocabulary, questions)
    with strategy.scope():
        words = network.vectors_of_words(model, text.vocabulary)
    recipe.save(words)


def train(
    strategy: tf_adasum.AdasumStrategy, text: corpus.Corpus, settings: Settings
) -> keras.Model:
    """Trains a new model.

    Args:
        strategy: whose replicas train.
        text: what they read.
        settings: how.

    Returns:
        The model of models.word2vec.network.build.
    """
    replicas, communicator = strategy.num_replicas_in_sync, strategy.extended.communicator
    grams = SkipGrams(text, settings.window, settings.negatives, settings.subsampling)
    batch = settings.batch_size * replicas
    steps = max(1, grams.expected_pairs() // batch)
    # The field's rate is that of one term of one pair; Keras takes the mean of all terms.
    rate = settings.learning_rate * settings.batch_size * (1 + settings.negatives)
    falling = keras.optimizers.schedules.PolynomialDecay(rate, steps * settings.epochs, 0.0)
    with strategy.scope():
        model = network.build(len(text.vocabulary), settings.dimension, settings.negatives)
        model.compile(
            tf_adasum.wrap(keras.optimizers.SGD(falling), mode=FLAGS.mode),
            keras.losses.BinaryCrossentropy(from_logits=True),
        )
    recipe.say(
        f"{FLAGS.reduction}: {workers.describe(strategy)} x {settings.batch_size} pairs, "
        f"{len(text.words)} words, {len(text.vocabulary)} of them different"
    )
    model.fit(
        grams.batches(batch, communicator.size, communicator.rank),
        steps_per_epoch=steps,
        epochs=settings.epochs,
        shuffle=False,  # the pairs are shuffled already
        verbose=recipe.verbose(),
    )
    return model


def report(vectors: np.ndarray, vocabulary: list[str], questions: list[analogies.Question]) -> None:
    """Prints the analogy accuracy, and what is near some words, on rank 0."""
    known = analogies.known(questions, vocabulary)
    told = f"of {len(known)}; the text lacks words of {len(questions) - len(known)} others"
    share = f"{analogies.accuracy(vectors, known):.1%} " if len(known) else ""
    recipe.say(f"Analogies: {share}{told}")
    # Words that are asked for, or else those that are frequent.
    shown = list(dict.fromkeys(known[:, 1])) if len(known) else range(len(vocabulary))
    for word in shown[:_SHOWN_WORDS]:
        near = analogies.nearest(vectors, word, _SHOWN_NEAREST)
        recipe.say(f"{vocabulary[word]}: {' '.join(vocabulary[i] for i in near)}")


if __name__ == "__main__":
    program.run(main)
