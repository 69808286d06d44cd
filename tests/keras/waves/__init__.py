"""A data set of tensorflow_datasets, which asks for a package of its own for each builder."""
