#include "cc/algorithms/fusion_buffer.h"

#include "cc/core/bytes.h"

namespace adasum {

FusionBuffer::FusionBuffer(const LeafTensors& tensors, const CollectiveContext& context)
    : tensors_(tensors), context_(context), element_bytes_(ElementBytes(tensors.dtype)) {}

bool FusionBuffer::WorksInOutput() const { return IsPackedAlready() && !tensors_.outputs.empty(); }

void FusionBuffer::Open(Range range, int64_t extra_bytes) {
  int64_t num_bytes = Bytes(range) + extra_bytes;
  range_ = range;
  if (context_.transport.requires_workspace()) {
    work_ = static_cast<char*>(context_.transport.Workspace(num_bytes));
  } else if (WorksInOutput()) {
    work_ = At(tensors_.outputs[0], range.begin * element_bytes_);
  } else {
    context_.scratch.slot ^= 1;
    work_ = static_cast<char*>(context_.scratch.work[context_.scratch.slot].Get(num_bytes));
  }
}

char* FusionBuffer::Work(Range range) const {
  return work_ + (range.begin - range_.begin) * element_bytes_;
}

const void* FusionBuffer::Own(int64_t segment, int64_t position) const {
  if (is_in_work_) return Work({position, position});
  return At(tensors_.inputs[segment],
            (position - tensors_.segments.offset(segment)) * element_bytes_);
}

void* FusionBuffer::Output(int64_t segment, int64_t position) const {
  return At(tensors_.outputs[segment],
            (position - tensors_.segments.offset(segment)) * element_bytes_);
}

std::vector<Piece> FusionBuffer::PackingOf(Range range, char* to) const {
  std::vector<Piece> pieces;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    char* piece = to + (part.begin - range.begin) * element_bytes_;
    pieces.push_back({segment, Own(segment, part.begin), nullptr, piece, nullptr, part.size()});
  });
  return pieces;
}

const void* FusionBuffer::Packed(Range range, char* to) {
  if (is_in_work_) return Work(range);
  const std::vector<Piece> pieces = PackingOf(range, to);
  if (pieces.size() == 1 && !context_.transport.requires_workspace()) return pieces[0].left;
  context_.arithmetic.CopyPieces(dtype(), pieces);
  return to;
}

const void* FusionBuffer::PackedFor(int peer, Range range, char* to) {
  Arithmetic& arithmetic = context_.arithmetic;
  const bool is_read_here = SharesMemory(context_.transport, peer);
  if (is_in_work_ || !is_read_here || !arithmetic.HasCaches()) return Packed(range, to);
  const auto pack = [&](int64_t begin, int64_t num_bytes, bool is_past_caches) {
    const int64_t first = range.begin + Elements(begin);
    const std::vector<Piece> pieces = PackingOf({first, first + Elements(num_bytes)}, to + begin);
    is_past_caches ? arithmetic.CopyPiecesPastCaches(dtype(), pieces)
                   : arithmetic.CopyPieces(dtype(), pieces);
  };
  context_.scratch.stores.ForPeer(peer, Bytes(range), pack);
  return to;
}

std::vector<Piece> FusionBuffer::Pieces(Range range, const void* left, const void* right, void* out,
                                        bool is_final) const {
  std::vector<Piece> pieces;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    const int64_t inside = (part.begin - range.begin) * element_bytes_;
    void* copy = is_final && !tensors_.outputs.empty() ? Output(segment, part.begin) : nullptr;
    void* result = out == nullptr ? copy : At(out, inside);
    pieces.push_back({segment, left == nullptr ? Own(segment, part.begin) : At(left, inside),
                      right == nullptr ? Own(segment, part.begin) : At(right, inside), result,
                      copy == result ? nullptr : copy, part.size()});
  });
  return pieces;
}

std::vector<Stack> FusionBuffer::Stacks(Range range, const std::vector<const void*>& runs,
                                        void* out, int64_t origin, bool is_past_caches) const {
  std::vector<Stack> stacks;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    const int64_t inside = (part.begin - range.begin) * element_bytes_;
    void* copy = tensors_.outputs.empty() ? nullptr : Output(segment, part.begin);
    void* const result = out == nullptr ? copy : At(out, inside);
    if (out == nullptr) copy = nullptr;
    stacks.push_back(
        {segment, {}, result, {copy}, part.size(), part.begin - origin, is_past_caches});
    for (size_t leaf = 0; leaf < runs.size(); ++leaf) {
      stacks.back().operands[leaf] =
          runs[leaf] == nullptr ? Own(segment, part.begin) : At(runs[leaf], inside);
    }
  });
  return stacks;
}

void FusionBuffer::Deliver(Range range, const void* results) {
  if (tensors_.outputs.empty()) return;
  std::vector<Piece> pieces;
  tensors_.segments.ForEach(range, [&](int64_t segment, Range part) {
    const void* from = At(results, (part.begin - range.begin) * element_bytes_);
    void* to = Output(segment, part.begin);
    if (from != to) pieces.push_back({segment, from, nullptr, to, nullptr, part.size()});
  });
  context_.arithmetic.DeliverPieces(dtype(), pieces);
}

void FusionBuffer::DeliverInputs() {
  tensors_.segments.ForEach(
      all(), [&](int64_t segment, Range part) { Deliver(part, Own(segment, part.begin)); });
}

}  // namespace adasum
