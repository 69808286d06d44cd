"""A GAN as Keras' examples write it: a model without `call` that keeps its optimizers itself."""

from __future__ import annotations

import keras
import tensorflow as tf

from tests.training.replicas import NUM_FEATURES, NUM_OUTPUTS


class Gan(keras.Model):
    """Two networks, two optimizers; the discriminator learns first."""

    def __init__(self):
        super().__init__()
        layers = keras.layers
        self.discriminator = keras.Sequential(
            [keras.Input((NUM_OUTPUTS,)), layers.Dense(6, "tanh"), layers.Dense(1)],
            name="discriminator",
        )
        self.generator = keras.Sequential(
            [keras.Input((NUM_FEATURES,)), layers.Dense(6, "tanh"), layers.Dense(NUM_OUTPUTS)],
            name="generator",
        )

    def compile(self, of_discriminator, of_generator):
        super().compile()
        self.of_discriminator, self.of_generator = of_discriminator, of_generator
        self.loss = keras.losses.BinaryCrossentropy(from_logits=True)

    def train_step(self, data):
        latent, real = data
        ones, zeros = tf.ones([tf.shape(real)[0], 1]), tf.zeros([tf.shape(real)[0], 1])
        with tf.GradientTape() as tape:
            d_loss = self.loss(ones, self.discriminator(real))
            d_loss += self.loss(zeros, self.discriminator(self.generator(latent)))
        weights = self.discriminator.trainable_variables
        self.of_discriminator.apply(tape.gradient(d_loss, weights), weights)
        with tf.GradientTape() as tape:
            g_loss = self.loss(ones, self.discriminator(self.generator(latent)))
        weights = self.generator.trainable_variables
        self.of_generator.apply(tape.gradient(g_loss, weights), weights)
        return {"d_loss": d_loss, "g_loss": g_loss}
