#include "cc/algorithms/packed_leaf.h"

#include "cc/core/bytes.h"

namespace adasum {

PackedLeaf::PackedLeaf(const LeafTensors& tensors, const CollectiveContext& context)
    : tensors_(tensors), context_(context), element_bytes_(ElementBytes(tensors.dtype)) {}

bool PackedLeaf::WorksInOutput() const { return IsPackedAlready() && !tensors_.outputs.empty(); }

void PackedLeaf::Open(Range range, int64_t extra_bytes) {
  int64_t num_bytes = Bytes(range) + extra_bytes;
  range_ = range;
  if (context_.transport.needs_workspace()) {
    work_ = static_cast<char*>(context_.transport.Workspace(num_bytes));
  } else if (WorksInOutput()) {
    work_ = At(tensors_.outputs[0], range.begin * element_bytes_);
  } else {
    context_.scratch.turn ^= 1;
    work_ = static_cast<char*>(context_.scratch.work[context_.scratch.turn].Get(num_bytes));
  }
}

char* PackedLeaf::Work(Range range) const {
  return work_ + (range.begin - range_.begin) * element_bytes_;
}

const void* PackedLeaf::Own(int64_t segment, int64_t position) const {
  if (is_in_work_) return Work({position, position});
  return At(tensors_.inputs[segment],
            (position - tensors_.segments.offset(segment)) * element_bytes_);
}

void* PackedLeaf::Output(int64_t segment, int64_t position) const {
  return At(tensors_.outputs[segment],
            (position - tensors_.segments.offset(segment)) * element_bytes_);
}

const void* PackedLeaf::Packed(Range range, char* place) {
  if (is_in_work_) return Work(range);
  if (IsPackedAlready()) return At(tensors_.inputs[0], range.begin * element_bytes_);
  std::vector<Piece> pieces;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    char* to = place + (part.begin - range.begin) * element_bytes_;
    pieces.push_back({segment, Own(segment, part.begin), nullptr, to, nullptr, part.size()});
  });
  context_.arithmetic.CopyPieces(dtype(), pieces);
  return place;
}

std::vector<Piece> PackedLeaf::Pieces(Range range, const void* left, const void* right, void* out,
                                      bool is_final) const {
  std::vector<Piece> pieces;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    const int64_t inside = (part.begin - range.begin) * element_bytes_;
    void* result = At(out, inside);
    void* copy = is_final && !tensors_.outputs.empty() ? Output(segment, part.begin) : nullptr;
    pieces.push_back({segment, left == nullptr ? Own(segment, part.begin) : At(left, inside),
                      right == nullptr ? Own(segment, part.begin) : At(right, inside), result,
                      copy == result ? nullptr : copy, part.size()});
  });
  return pieces;
}

std::vector<Stack> PackedLeaf::Stacks(Range range, const std::vector<const void*>& runs,
                                      void* out) const {
  std::vector<Stack> stacks;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    const int64_t inside = (part.begin - range.begin) * element_bytes_;
    void* copy = tensors_.outputs.empty() ? nullptr : Output(segment, part.begin);
    stacks.push_back({segment, {}, out == nullptr ? nullptr : At(out, inside), copy, part.size()});
    for (size_t leaf = 0; leaf < runs.size(); ++leaf) {
      stacks.back().operands[leaf] =
          runs[leaf] == nullptr ? Own(segment, part.begin) : At(runs[leaf], inside);
    }
  });
  return stacks;
}

void PackedLeaf::Deliver(Range range, const void* results) {
  if (tensors_.outputs.empty()) return;
  std::vector<Piece> pieces;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    const void* from = At(results, (part.begin - range.begin) * element_bytes_);
    void* to = Output(segment, part.begin);
    if (from != to) pieces.push_back({segment, from, nullptr, to, nullptr, part.size()});
  });
  context_.arithmetic.DeliverPieces(dtype(), pieces);
}

void PackedLeaf::DeliverInputs() {
  tensors_.segments.ForEach(
      all(), [&](int64_t segment, Range part) { Deliver(part, Own(segment, part.begin)); });
}

}  // namespace adasum
