"""What a rank sends of tensors that travel encoded, counted in its timeline."""

import pytest
import tensorflow as tf

import tf_adasum as adasum
from adasumrun import timeline
from tests.reference import compressed
from tf_adasum import compression

NUM_ELEMENTS = 300_001
# What n values take, and of what they take as they are.
CODECS = {
    "identity": (compression.Identity(), lambda n: 4 * n, 1),
    "float16": (compression.Float16(), lambda n: 2 * n, 1 / 2),
    "bfloat16": (compression.BFloat16(), lambda n: 2 * n, 1 / 2),
    "sign": (compression.Sign(), lambda n: 4 + (n + 7) // 8, 1 / 32),
    "top_k": (compression.TopK(0.01), lambda n: 8 * -(-n // 100), 1 / 50),
    "threshold": (compression.Threshold(0.005), lambda n: 8 * -(-n // 200), 1 / 100),
    "quantized": (compression.Quantized(4), lambda n: 4 + (n + 1) // 2, 1 / 8),
}


@pytest.mark.parametrize("shares_memory", [True, False])
@pytest.mark.parametrize("reduction", ["adasum", "mean"])
def test_bytes_are_those_of_the_codes(reduction, shares_memory, tmp_path):
    options = {"shared_memory": shares_memory, "timeline": str(tmp_path / "trace")}
    communicator = adasum.world().split(color=0, options=options)
    for name, (codec, _, _) in CODECS.items():
        adasum.allreduce(tf.ones([NUM_ELEMENTS]), reduction, communicator, name, compression=codec)
    communicator.close()  # which ends its timeline
    (written,) = tmp_path.iterdir()
    sent = dict(timeline.sent_bytes(timeline.read(written)))
    parts = [part.stop - part.start for part in compressed.parts(NUM_ELEMENTS, adasum.size())]
    own = parts.pop(adasum.rank())
    for name, (_, num_bytes, share) in CODECS.items():
        # To each other rank its part of the tensor, and the own part of the result.
        expected = sum(map(num_bytes, parts)) + len(parts) * num_bytes(own)
        assert expected <= sent[name] <= 1.03 * expected, name
        assert sent[name] == pytest.approx(share * sent["identity"], rel=0.03), name
