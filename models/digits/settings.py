"""The settings that the demo, the training script and the measured claim share."""

# One of models.digits.optimizers.
OPTIMIZER = "momentum"
# Among the best for one worker (docs/results.md); more workers keep it.
LEARNING_RATE = 0.02
# Images a worker sees in one step.
BATCH_SIZE = 32
# Training images are moved by up to this many pixels each way: (2 * SHIFT + 1)^2 variants of each.
SHIFT = 1
# The same for the test images of the claim; the demo tests on the images as they are.
TEST_SHIFT = 1
# The network: two convolutions with these many filters, then a dense layer.
FILTERS = (16, 32)
KERNEL_SIZE = 3
HIDDEN_UNITS = 64
# The demo's epochs on 4 ranks.
EPOCHS = 4
