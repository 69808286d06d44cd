"""Text as word pieces, and sequences of them in which some are masked."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tensorflow as tf
import tokenizers

PAD, UNKNOWN, MASK = "[PAD]", "[UNK]", "[MASK]"
SPECIAL = [PAD, UNKNOWN, MASK]
MASKED_SHARE = 0.15
# Of the masked pieces: what is replaced by [MASK], and by any piece; the others stay.
_REPLACED, _RANDOM = 0.8, 0.1


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> tokenizers.Tokenizer:
    """Returns a word-piece tokenizer of these texts; pieces 0 to 2 are SPECIAL.

    Args:
        texts: to learn from.
        vocabulary: most pieces.
    """
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = tokenizers.decoders.WordPiece()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def sequences(tokenizer: tokenizers.Tokenizer, texts: list[str], length: int) -> np.ndarray:
    """Returns the texts one after the other, cut into full sequences: int32 [n, length]."""
    encoded = [np.asarray(text.ids, np.int32) for text in tokenizer.encode_batch(texts)]
    pieces = np.concatenate([*encoded, np.empty(0, np.int32)])
    return pieces[: len(pieces) // length * length].reshape(-1, length)


def num_masked(length: int) -> int:
    """Masked positions of a sequence: 15 %, at least one."""
    return max(1, round(MASKED_SHARE * length))


def masked(pieces: tf.Tensor, vocabulary: int, seed: tf.Tensor) -> tuple[dict, tf.Tensor]:
    """Masks other pieces of each sequence for every seed.

    Of the masked pieces 80 % become [MASK], 10 % any piece and 10 % stay as they are, so that the
    model must look at every piece.

    Args:
        pieces: int32 [batch, length].
        vocabulary: number of word pieces.
        seed: int64 [2], of the choice.

    Returns:
        What the model takes: {"pieces", "positions"}, and the pieces that it must find, int32
        [batch, masked].

    Source: Devlin et al., "BERT", NAACL 2019, section 3.1.
    """
    seeds = tf.random.split(seed, 3)
    shape = tf.shape(pieces)
    order = tf.argsort(tf.random.stateless_uniform(shape, seeds[0]), axis=1)
    positions = tf.sort(order[:, : num_masked(pieces.shape[1])], axis=1)
    labels = tf.gather(pieces, positions, batch_dims=1)
    chance = tf.random.stateless_uniform(tf.shape(labels), seeds[1])
    others = tf.random.stateless_uniform(
        tf.shape(labels), seeds[2], len(SPECIAL), vocabulary, tf.int32
    )
    mask = tf.fill(tf.shape(labels), SPECIAL.index(MASK))
    shown = tf.where(chance < _REPLACED, mask, labels)
    shown = tf.where(chance >= 1 - _RANDOM, others, shown)
    rows = tf.broadcast_to(tf.range(shape[0])[:, None], tf.shape(positions))
    where = tf.stack([rows, positions], axis=-1)
    hidden = tf.tensor_scatter_nd_update(pieces, where, shown)
    return {"pieces": hidden, "positions": positions}, labels
