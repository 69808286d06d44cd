"""The allreduce of tensors that travel encoded, with error feedback on both legs."""

import numpy as np

GRANULARITY = 64


def parts(num_elements, num_ranks):
    """What each rank reduces for all: slices of about equal length that begin at whole lines."""

    def border(rank):
        even = -(-num_elements * rank // num_ranks)
        return min(-(-even // GRANULARITY) * GRANULARITY, num_elements)

    return [slice(border(rank), border(rank + 1)) for rank in range(num_ranks)]


def encode(x, residual, q):
    """What arrives of x + residual, part by part, and what stays behind."""
    whole = x + residual
    sent = q(whole)
    lost = whole - sent
    stays = np.isfinite(lost)
    return sent, np.where(stays, lost, residual)


def allreduce(inputs, reduce, q, residuals, part_residuals):
    """The result of vectors, one per replica, and both kinds of residuals as they are then.

    There are as many residuals of parts as ranks, which have equally many replicas.
    """
    inputs = [np.asarray(x) for x in inputs]
    slices = parts(inputs[0].size, len(part_residuals))
    sent, after = [np.empty_like(x) for x in inputs], [np.empty_like(x) for x in inputs]
    for leaf, x in enumerate(inputs):
        for part in slices:
            sent[leaf][part], after[leaf][part] = encode(x[part], residuals[leaf][part], q)
    reduced = reduce(sent).astype(inputs[0].dtype)
    result, parts_after = np.empty_like(reduced), [kept.copy() for kept in part_residuals]
    for rank, part in enumerate(slices):
        length = part.stop - part.start
        kept = part_residuals[rank][:length]
        result[part], parts_after[rank][:length] = encode(reduced[part], kept, q)
    return result, after, parts_after
