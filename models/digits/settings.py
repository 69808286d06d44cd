"""The settings that the demo, the training script and the measured claim share."""

# One of models.digits.optimizers.
OPTIMIZER = "momentum"
# Among the best for one worker (docs/results/digits.md); more workers keep it.
LEARNING_RATE = 0.02
# Images a worker sees in one step.
BATCH_SIZE = 32
# Training images are moved by up to this many pixels each way: (2 * SHIFT + 1)^2 variants of each.
SHIFT = 1
# The same for the test images of the claim and the demo.
TEST_SHIFT = 1
# The network: two convolutions with these many filters, then a dense layer.
FILTERS = (16, 32)
KERNEL_SIZE = 3
HIDDEN_UNITS = 64
# Epochs of models.digits.train.
EPOCHS = 4
# The demo: 4 ranks with 8 replicas each, twice as long as Adasum takes to the target.
DEMO_RANKS = 4
DEMO_WORKERS = 32
DEMO_EPOCHS = 24
