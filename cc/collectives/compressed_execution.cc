#include "cc/collectives/compressed_execution.h"

#include <functional>
#include <limits>
#include <numeric>

#include "cc/algorithms/ring_turns.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/parts.h"
#include "cc/collectives/reduce_held.h"
#include "cc/collectives/tensor_codes.h"

namespace adasum {
namespace {

constexpr int64_t kAllElements = std::numeric_limits<int64_t>::max();
// Values of a group that is encoded and decoded while others are on a network: so many that the
// first and the last, which nothing hides, take little; many more than a message costs.
constexpr int64_t kGroupElements = int64_t{2} << 20;

Part ToSend(const CodeSpan& codes) { return {codes.bytes, codes.num_bytes}; }
PartOfResult ToReceive(const CodeSpan& codes) { return {codes.bytes, codes.num_bytes}; }

// Of the only leaf.
void DeliverInputs(const CompressedTensors& tensors, CpuArithmetic& arithmetic) {
  const std::vector<int64_t> counts = NumElements(tensors.shapes);
  for (size_t i = 0; i < counts.size(); ++i) {
    arithmetic.Deliver(tensors.outputs[i], tensors.inputs[0][i],
                       counts[i] * ElementBytes(tensors.dtype));
  }
  arithmetic.Finish();
}

// Where ranks share memory there is no wire to wait for.
void ScatterAtOnce(TensorCodes& codes, Transport& transport) {
  for (int64_t group = 0; group < codes.num_groups(); ++group) {
    for (int to = 0; to < transport.size(); ++to) {
      codes.EncodeLeaves(group, to, codes.Sent(group, to));
    }
    ExchangeParts(
        transport, [&](int to) { return ToSend(codes.Sent(group, to)); },
        [&](int from) { return ToReceive(codes.Received(group, from)); });
    codes.DecodeLeaves(group);
  }
}

void GatherAtOnce(TensorCodes& codes, Transport& transport) {
  for (int64_t group = 0; group < codes.num_groups(); ++group) {
    codes.EncodeResult(group);
    ExchangeParts(
        transport, [&](int) { return ToSend(codes.ResultSent(group)); },
        [&](int from) { return ToReceive(codes.ResultReceived(group, from)); });
    for (int from = 0; from < transport.size(); ++from) {
      codes.DecodeResult(group, from, codes.ResultReceived(group, from));
    }
  }
}

// A group is encoded, or decoded, while others are on the wire.
void ScatterByTurns(TensorCodes& codes, Transport& transport) {
  std::vector<bool> is_encoded(codes.num_groups() * transport.size());
  TakeRingTurns(
      transport, codes.num_groups(),
      [&](const RingTurn& turn) {
        const CodeSpan sent = codes.Sent(turn.chunk, turn.to);
        auto&& is_done = is_encoded[turn.chunk * transport.size() + turn.to];
        if (!is_done) codes.EncodeLeaves(turn.chunk, turn.to, sent);
        is_done = true;
        return Send{turn.to, sent.bytes, sent.num_bytes};
      },
      [&](const RingTurn& turn) {
        const CodeSpan received = codes.Received(turn.chunk, turn.from);
        return Recv{turn.from, received.bytes, received.num_bytes};
      },
      [&](const RingTurn& turn) {
        if (!turn.is_last) return;
        const int own = transport.rank();
        codes.EncodeLeaves(turn.chunk, own, codes.Received(turn.chunk, own));
        codes.DecodeLeaves(turn.chunk);
      });
}

void GatherByTurns(TensorCodes& codes, Transport& transport) {
  int64_t num_encoded = 0;
  TakeRingTurns(
      transport, codes.num_groups(),
      [&](const RingTurn& turn) {
        while (num_encoded <= turn.chunk) codes.EncodeResult(num_encoded++);
        const CodeSpan sent = codes.ResultSent(turn.chunk);
        return Send{turn.to, sent.bytes, sent.num_bytes};
      },
      [&](const RingTurn& turn) {
        const CodeSpan received = codes.ResultReceived(turn.chunk, turn.from);
        return Recv{turn.from, received.bytes, received.num_bytes};
      },
      [&](const RingTurn& turn) {
        codes.DecodeResult(turn.chunk, turn.from, codes.ResultReceived(turn.chunk, turn.from));
        if (!turn.is_last) return;
        // The own part, too, so that all ranks have the same.
        codes.DecodeResult(turn.chunk, transport.rank(), codes.ResultSent(turn.chunk));
      });
}

}  // namespace

// Where codes take c bytes of a tensor, a rank of L replicas sends (N - 1) / N of L c, and of its
// part of the result c / N, N - 1 times.
void ExecuteCompressedAllreduce(const CompressedTensors& tensors, const Reduction& reduction,
                                Transport& transport, InstructionSet instruction_set,
                                CompressedScratch& scratch, Timeline* timeline) {
  CpuArithmetic arithmetic(KernelsOf(instruction_set));
  if (transport.size() == 1 && tensors.inputs.size() == 1)
    return DeliverInputs(tensors, arithmetic);
  const bool is_posted = IsNetworkOnly(transport);
  TensorCodes codes(tensors, NumElements(tensors.shapes), transport, scratch, instruction_set,
                    is_posted ? kGroupElements : kAllElements, timeline);
  codes.Allocate(transport);
  is_posted ? ScatterByTurns(codes, transport) : ScatterAtOnce(codes, transport);
  ReduceHeld(codes.held(), reduction, transport, arithmetic);
  is_posted ? GatherByTurns(codes, transport) : GatherAtOnce(codes, transport);
}

}  // namespace adasum
