"""Masked-language-model pre-training of BERT."""
