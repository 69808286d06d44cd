#include "cc/algorithms/network_direct.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cc/algorithms/chunks.h"
#include "cc/algorithms/combine_tree.h"
#include "cc/algorithms/fusion_buffer.h"
#include "cc/algorithms/ring_turns.h"
#include "cc/algorithms/schedule.h"
#include "cc/algorithms/weights_of_leaves.h"

namespace adasum {
namespace {

// One allreduce of a vector of B bytes on N leaves. Passes over memory: packs what the peers
// combine (B (N - 1) / N, once), takes products of the own part of all vectors (B), combines it
// (B), and delivers the peers' parts (B (N - 1) / N). Products are taken and results delivered
// while later chunks are on their way.
class NetworkDirect {
 public:
  NetworkDirect(const LeafTensors& tensors, const CollectiveContext& context)
      : tensors_(tensors),
        context_(context),
        transport_(context.transport),
        arithmetic_(context.arithmetic),
        buffer_(tensors, context),
        rank_(transport_.rank()),
        size_(transport_.size()),
        tree_(MakeTree(size_)),
        chunks_(Part(rank_), {}, ChunkElements(),
                Part(0).size()),  // no part is longer than Part(0)
        part_bytes_(buffer_.Bytes(Part(0))),
        packed_(chunks_.size() * size_) {}

  bool Run() {
    buffer_.Open(buffer_.all(), 0);
    // The own part of all leaves' vectors, where the own one's place is that of the result.
    received_ = static_cast<char*>(
        context_.scratch.receive.Get(size_ * part_bytes_ + BytesBetween(size_, arithmetic_)));
    Scatter();
    if (NeedsMoments() &&
        !WeightsOfLeaves(tensors_, context_, tree_, std::move(grams_), &weights_)) {
      return false;
    }
    Gather();
    return true;
  }

 private:
  bool NeedsMoments() const { return context_.reduction.NeedsMoments(); }
  int64_t ChunkElements() const {
    return buffer_.Elements(ChunkBytesWith((rank_ + 1) % size_, transport_, arithmetic_));
  }
  Range Part(int rank) const { return PartOf(rank, size_, buffer_.all().size()); }
  Range ChunkOf(int rank, int64_t chunk) const { return chunks_.Of(Part(rank), chunk); }
  // Where the own part's chunk lies, of a leaf's vector; of the own leaf, the result.
  char* Received(int leaf, int64_t chunk) const {
    const Range before{Part(rank_).begin, chunks_.keep(chunk).begin};
    return received_ + leaf * part_bytes_ + buffer_.Bytes(before);
  }
  std::vector<const void*> Runs(int64_t chunk) const {
    return RunsOfLeaves(rank_, size_, [&](int leaf) { return Received(leaf, chunk); });
  }
  std::vector<Stack> Stacks(int64_t chunk, void* out) const {
    return buffer_.Stacks(chunks_.keep(chunk), Runs(chunk), out, Part(rank_).begin);
  }

  void Scatter();
  Send PackedFor(const RingTurn& turn);
  void Gather();
  void Combine(int64_t chunk);

  const LeafTensors& tensors_;
  const CollectiveContext& context_;
  Transport& transport_;
  Arithmetic& arithmetic_;
  FusionBuffer buffer_;
  const int rank_;
  const int size_;
  const std::vector<TreeNode> tree_;
  const Chunks chunks_;  // of every part; as many on all leaves
  const int64_t part_bytes_;
  char* received_ = nullptr;
  std::vector<const void*> packed_;  // of every chunk, what every peer combines
  std::vector<double> grams_, weights_;
};

Send NetworkDirect::PackedFor(const RingTurn& turn) {
  const Range range = ChunkOf(turn.to, turn.chunk);
  const void*& packed = packed_[turn.chunk * size_ + turn.to];
  if (packed == nullptr) packed = buffer_.Packed(range, buffer_.Work(range));
  return {turn.to, packed, buffer_.Bytes(range)};
}

void NetworkDirect::Scatter() {
  if (NeedsMoments()) grams_.resize(buffer_.num_segments() * GramSize(size_));
  TakeRingTurns(
      transport_, chunks_.size(), [&](const RingTurn& turn) { return PackedFor(turn); },
      [&](const RingTurn& turn) {
        return Recv{turn.from, Received(turn.from, turn.chunk),
                    buffer_.Bytes(chunks_.keep(turn.chunk))};
      },
      [&](const RingTurn& turn) {
        if (!turn.is_last || !NeedsMoments()) return;
        arithmetic_.AddGrams(buffer_.dtype(), size_, Stacks(turn.chunk, nullptr), grams_.data());
      });
}

void NetworkDirect::Gather() {
  int64_t num_combined = 0;
  TakeRingTurns(
      transport_, chunks_.size(),
      [&](const RingTurn& turn) {
        while (num_combined <= turn.chunk) Combine(num_combined++);
        return Send{turn.to, Received(rank_, turn.chunk), buffer_.Bytes(chunks_.keep(turn.chunk))};
      },
      [&](const RingTurn& turn) {
        const Range range = ChunkOf(turn.from, turn.chunk);
        return Recv{turn.from, buffer_.Work(range), buffer_.Bytes(range)};
      },
      [&](const RingTurn& turn) {
        const Range range = ChunkOf(turn.from, turn.chunk);
        buffer_.Deliver(range, buffer_.Work(range));
      });
}

void NetworkDirect::Combine(int64_t chunk) {
  char* const result = Received(rank_, chunk);
  if (NeedsMoments()) {
    arithmetic_.CombineStacks(buffer_.dtype(), size_, Stacks(chunk, result), weights_.data());
    return;
  }
  CombineTree(buffer_, context_, tree_, chunks_.keep(chunk), Runs(chunk), result,
              received_ + size_ * part_bytes_);
}

}  // namespace

bool SuitsNetworkDirect(const Transport& transport) {
  const int size = transport.size();
  const bool is_power = (size & (size - 1)) == 0;
  if (is_power || size > kMostOperands) return false;
  // Where some ranks share a host, halving keeps more of the bytes inside; and SendRecv must carry
  // what is reduced.
  return IsNetworkOnly(transport) && transport.ShortBytes() > 0;
}

bool NetworkDirectAllreduce(const LeafTensors& tensors, const CollectiveContext& context) {
  return NetworkDirect(tensors, context).Run();
}

}  // namespace adasum
