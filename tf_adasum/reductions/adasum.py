"""Adasum: adds what is orthogonal, averages what is parallel (Maleki et al., MLSys 2021)."""

from tf_adasum.reductions import Reduction

REDUCTION = Reduction(
    name="adasum",
    summary="(1 - a.b / (2|a|^2)) a + (1 - a.b / (2|b|^2)) b, pairwise in a tree",
    floats_only=True,
)
