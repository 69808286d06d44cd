"""How tensors travel: the codecs, one file each, and what they keep between two calls.

    state = adasum.compression.State(gradients, adasum.compression.Sign())
    reduced = adasum.allreduce(gradients, compression=adasum.compression.Sign(), state=state)

The arithmetic is in cc/compression, in the files of the same names.
"""

from tf_adasum.collectives.compression.bfloat16 import BFloat16
from tf_adasum.collectives.compression.compression import Compression
from tf_adasum.collectives.compression.float16 import Float16
from tf_adasum.collectives.compression.identity import Identity
from tf_adasum.collectives.compression.quantized import Quantized
from tf_adasum.collectives.compression.sign import Sign
from tf_adasum.collectives.compression.simulated_state import SimulatedState
from tf_adasum.collectives.compression.sketch import Sketch
from tf_adasum.collectives.compression.state import State
from tf_adasum.collectives.compression.threshold import Threshold
from tf_adasum.collectives.compression.top_k import TopK

__all__ = [
    "BFloat16",
    "Compression",
    "Float16",
    "Identity",
    "Quantized",
    "Sign",
    "SimulatedState",
    "Sketch",
    "State",
    "Threshold",
    "TopK",
]
