"""Layers with something of their own: a state, random numbers, statistics, sparse gradients."""

from __future__ import annotations

import functools

import keras
import numpy as np

from tests.keras.registry import ALIKE, HOLDS, row
from tests.keras.rows.losses import tokens
from tests.keras.run import BATCH
from tests.training.replicas import NUM_OUTPUTS, small_model

layers = functools.partial(row, "Layers")


def recurrent(run, *stack):
    def make():
        embedding = keras.layers.Embedding(11, 4, mask_zero=True)
        inputs = keras.Input((5,), dtype="int32")
        return keras.Sequential([inputs, embedding, *stack, keras.layers.Dense(NUM_OUTPUTS)])

    model = run.compiled(make)
    words, _ = tokens(3, [2, 5, 1, 4])
    targets = np.random.default_rng(2).normal(size=(len(words), NUM_OUTPUTS))
    return run.result(model, run.fit(model, words, targets.astype(np.float32)))


@layers("LSTM, with a mask")
def lstm(run):
    return recurrent(run, keras.layers.LSTM(3))


@layers("Embedding of 500 rows, a few of them in a step", full=True)
def embedding(run):
    def make():
        stack = [keras.layers.Embedding(500, 4), keras.layers.Flatten()]
        inputs = keras.Input((5,), dtype="int32")
        return keras.Sequential([inputs, *stack, keras.layers.Dense(NUM_OUTPUTS)])

    model = run.compiled(make)
    random = np.random.default_rng(2)
    words = random.integers(0, 500, (3 * BATCH, 5))
    targets = random.normal(size=(len(words), NUM_OUTPUTS)).astype(np.float32)
    return run.result(model, run.fit(model, words, targets, epochs=4))


@layers("GRU, Bidirectional, with a mask", full=True)
def gru(run):
    return recurrent(run, keras.layers.Bidirectional(keras.layers.GRU(2)))


def images(run, *stack):
    def make():
        tail = [keras.layers.Flatten(), keras.layers.Dense(NUM_OUTPUTS)]
        return keras.Sequential([keras.Input((6, 6, 1)), *stack, *tail])

    model = run.compiled(make)
    random = np.random.default_rng(3)
    pixels = random.normal(size=(3 * BATCH, 6, 6, 1)).astype(np.float32)
    targets = random.normal(size=(3 * BATCH, NUM_OUTPUTS)).astype(np.float32)
    return run.result(model, run.fit(model, *run.batches(pixels, targets)))


@layers("Conv2D, MaxPooling2D", full=True)
def convolution(run):
    return images(run, keras.layers.Conv2D(3, 3), keras.layers.MaxPooling2D())


@layers("MultiHeadAttention, LayerNormalization")
def attention(run):
    def make():
        inputs = keras.Input((5,), dtype="int32")
        words = keras.layers.Embedding(11, 4)(inputs)
        seen = keras.layers.MultiHeadAttention(2, 3)(words, words)
        pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(seen))
        return keras.Model(inputs, keras.layers.Dense(NUM_OUTPUTS)(pooled))

    model = run.compiled(make)
    words, _ = tokens(3, [5])
    targets = np.random.default_rng(2).normal(size=(len(words), NUM_OUTPUTS))
    return run.result(model, run.fit(model, words, targets.astype(np.float32)))


@layers("BatchNormalization(synchronized=True)", tolerance=1e-4)
def synchronized(run):
    layer = keras.layers.BatchNormalization(momentum=0.8, synchronized=not run.is_plain)
    model = run.compiled(lambda: small_model(layer))
    x, y = run.examples()
    history = run.fit(model, x, y, validation_data=(x, y), validation_batch_size=BATCH)
    return run.result(model, history)


@layers(
    "BatchNormalization", cell=ALIKE, tolerance=1e-4, note="a replica's statistics are of its rows"
)
def normalization(run):
    layer = keras.layers.BatchNormalization(momentum=0.8)
    model = run.compiled(lambda: small_model(layer))
    x, y = run.examples()
    history = run.fit(model, x, y, validation_data=(x, y), validation_batch_size=BATCH)
    return run.result(model, history)


@layers(
    "Dropout, GaussianNoise",
    cell=HOLDS,
    note="replicas draw numbers of their own; evaluate and predict before the training are equal",
    full=True,
)
def dropout(run):
    stack = keras.layers.Dropout(0.3), keras.layers.GaussianNoise(0.05)
    model = run.compiled(lambda: small_model(*stack))
    x, y = run.examples(8)
    evaluated = model.evaluate(x, y, batch_size=BATCH, verbose=0)
    predicted = model.predict(x, batch_size=BATCH, verbose=0)
    history = run.fit(model, x, y)
    run.check_falls(history)
    run.models.append(model)
    return {"evaluated": evaluated, "predicted": predicted}


@layers("SpectralNormalization")
def spectral(run):
    def make():
        return small_model(keras.layers.SpectralNormalization(keras.layers.Dense(9)))

    model = run.compiled(make)
    return run.result(model, run.fit(model, *run.examples()))
