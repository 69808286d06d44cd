"""The model: a vector for each word, and one for each word as a neighbour."""

from __future__ import annotations

import keras


def build(words: int, dimension: int, negatives: int) -> keras.Model:
    """Returns a model that scores which words are near one.

    Args:
        words: of the vocabulary.
        dimension: of the vectors.
        negatives: candidates besides the word that is near.

    Returns:
        A built, not compiled, model: int32 [batch, 2 + negatives], a word and its candidates, to
        logits, float32 [batch, 1 + negatives].
    """
    narrow = keras.initializers.RandomUniform(-0.5 / dimension, 0.5 / dimension)
    vectors = keras.layers.Embedding(words, dimension, narrow, name="vectors")
    neighbours = keras.layers.Embedding(words, dimension, "zeros", name="neighbours")
    inputs = keras.Input((2 + negatives,), dtype="int32")
    logits = keras.layers.Dot(axes=(2, 1))([neighbours(inputs[:, 1:]), vectors(inputs[:, 0])])
    return keras.Model(inputs, logits)


def vectors_of_words(model: keras.Model, vocabulary: list[str]) -> keras.Model:
    """Returns a model from words to their vectors, to be saved and looked up in.

    Args:
        model: trained, of `build`.
        vocabulary: the words in the order of their numbers.

    Returns:
        A model: strings [batch] to float32 [batch, dimension]. It refuses unknown words.

    Example:
        >>> keras.models.load_model("words.keras")(tf.constant(["london", "paris"]))
    """
    inputs = keras.Input((), dtype="string")
    numbers = keras.layers.StringLookup(vocabulary=vocabulary, num_oov_indices=0)(inputs)
    return keras.Model(inputs, model.get_layer("vectors")(numbers))
