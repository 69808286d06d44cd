"""word2vec: skip-gram with negative sampling, whose embeddings have row-sparse gradients."""
