"""What the models share: flags, data sets, the strategy that the flags ask for."""
