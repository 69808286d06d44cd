"""Shapes of the gradients of well-known networks, in the order of their layers.

python -m benchmarks.gradient_lists resnet50 prints how many elements each has.
"""

import math
import sys
from collections.abc import Sequence

Shape = tuple[int, ...]

# ResNet-50 (He et al., CVPR 2016, table 1): (blocks, inner channels) of each stage.
_RESNET50_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
# BERT (Devlin et al., NAACL 2019, section 3): layers, hidden size; English uncased vocabulary.
_BERT = {"base": (12, 768), "large": (24, 1024)}
_BERT_VOCABULARY, _BERT_POSITIONS, _BERT_SEGMENTS = 30522, 512, 2


def resnet50() -> list[Shape]:
    """The 161 trainable variables of ResNet-50, convolutions without bias, 25.6 M elements."""
    shapes = _convolution(7, 3, 64)
    channels = 64
    for blocks, inner in _RESNET50_STAGES:
        for block in range(blocks):
            if block == 0:  # the shortcut changes the number of channels
                shapes += _convolution(1, channels, 4 * inner)
            shapes += _convolution(1, channels, inner)
            shapes += _convolution(3, inner, inner)
            shapes += _convolution(1, inner, 4 * inner)
            channels = 4 * inner
    return [*shapes, (channels, 1000), (1000,)]


def bert(size: str) -> list[Shape]:
    """The trainable variables of BERT's encoder and pooler: "base" 109.5 M, "large" 335 M."""
    layers, hidden = _BERT[size]
    norm = [(hidden,), (hidden,)]
    shapes: list[Shape] = [
        (_BERT_VOCABULARY, hidden),
        (_BERT_POSITIONS, hidden),
        (_BERT_SEGMENTS, hidden),
        *norm,
    ]
    for _ in range(layers):
        shapes += 4 * [(hidden, hidden), (hidden,)] + norm
        shapes += [(hidden, 4 * hidden), (4 * hidden,), (4 * hidden, hidden), (hidden,), *norm]
    return [*shapes, (hidden, hidden), (hidden,)]


LISTS = {
    "resnet50": resnet50,
    "bert-base": lambda: bert("base"),
    "bert-large": lambda: bert("large"),
}


def _convolution(kernel: int, inputs: int, outputs: int) -> list[Shape]:
    """A convolution's kernel with the scale and offset of its batch normalisation."""
    return [(kernel, kernel, inputs, outputs), (outputs,), (outputs,)]


def main(names: Sequence[str]) -> None:
    """Prints a line for each list: its name and the numbers of elements of its tensors."""
    for name in names:
        print(name, *[math.prod(shape) for shape in LISTS[name]()])


if __name__ == "__main__":
    main(sys.argv[1:] or list(LISTS))
