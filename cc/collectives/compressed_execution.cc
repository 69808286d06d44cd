#include "cc/collectives/compressed_execution.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <string>

#include "cc/algorithms/schedule.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/parts.h"
#include "cc/collectives/reduce_held.h"
#include "cc/collectives/rows.h"
#include "cc/compression/codec.h"
#include "cc/core/bytes.h"
#include "cc/core/error.h"

namespace adasum {
namespace {

constexpr int64_t kLine = 64;  // bytes

int64_t RoundUp(int64_t num_bytes, int64_t to) { return (num_bytes + to - 1) / to * to; }

void AllocateCodes(Scratch* scratch, int64_t num_bytes) {
  try {
    scratch->Get(num_bytes);
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::kResourceExhausted,
                "no memory for " + std::to_string(num_bytes) + " bytes of codes.");
  }
}

// One request. Leaves are numbered rank * L + replica, as everywhere; a rank carries out what its
// L replicas ask for together. Where codes take c bytes of a tensor, a rank sends (N - 1) / N of
// L c, and of its part of the result c / N, N - 1 times.
class CompressedExecution {
 public:
  CompressedExecution(const CompressedTensors& tensors, const Reduction& reduction,
                      Transport& transport, InstructionSet instruction_set,
                      CompressedScratch& scratch, Timeline* timeline)
      : tensors_(tensors),
        reduction_(reduction),
        transport_(transport),
        scratch_(scratch),
        timeline_(timeline),
        arithmetic_(KernelsOf(instruction_set)),
        codec_(MakeCodec(tensors.codec, tensors.dtype, CodecKernelsOf(instruction_set))),
        rank_(transport.rank()),
        size_(transport.size()),
        num_replicas_(static_cast<int>(tensors.inputs.size())),
        element_bytes_(ElementBytes(tensors.dtype)) {
    for (const Shape& shape : tensors.shapes) {
      num_elements_.push_back(
          std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()));
    }
  }

  void Run() {
    if (size_ * num_replicas_ == 1) return DeliverInputs();
    Allocate();
    EncodeParts();
    SwapCodes();
    HeldLeaves held = DecodeParts();
    ReduceHeld(held, reduction_, transport_, arithmetic_);
    EncodeResult(held);
    ShareResult();
    DecodeResult();
  }

 private:
  size_t num_tensors() const { return num_elements_.size(); }
  Range Part(size_t tensor, int rank) const { return PartOf(rank, size_, num_elements_[tensor]); }
  // Codes lie at addresses that a value may lie at.
  int64_t CodeBytes(size_t tensor, int rank) const {
    return RoundUp(codec_->EncodedBytes(Part(tensor, rank).size()), sizeof(double));
  }
  // Of one leaf, the codes of all tensors' parts for a rank.
  int64_t LeafBytes(int rank) const {
    int64_t num_bytes = 0;
    for (size_t i = 0; i < num_tensors(); ++i) num_bytes += CodeBytes(i, rank);
    return num_bytes;
  }
  // Where the codes for a rank begin, where those of `leaves` leaves lie behind each other.
  int64_t BlockBegin(int rank, int leaves) const {
    int64_t begin = 0;
    for (int r = 0; r < rank; ++r) begin += leaves * LeafBytes(r);
    return begin;
  }
  // Of the values of all tensors' parts for a rank.
  int64_t ValueBytes(int rank) const {
    int64_t num_bytes = 0;
    for (size_t i = 0; i < num_tensors(); ++i) num_bytes += Part(i, rank).size() * element_bytes_;
    return num_bytes;
  }
  int64_t ValueBytesOfAll() const {
    int64_t num_bytes = 0;
    for (int rank = 0; rank < size_; ++rank) num_bytes += ValueBytes(rank);
    return num_bytes;
  }
  // Of the longest part, the first.
  int64_t PartBytes(size_t tensor) const {
    return RoundUp(Part(tensor, 0).size() * element_bytes_, kLine);
  }

  void DeliverInputs() {
    for (size_t i = 0; i < num_tensors(); ++i) {
      arithmetic_.Deliver(tensors_.outputs[i], tensors_.inputs[0][i],
                          num_elements_[i] * element_bytes_);
    }
    arithmetic_.Finish();
  }

  // As much on all ranks, so that all find alike whether there is enough from earlier requests.
  void Allocate() {
    const int num_leaves = size_ * num_replicas_;
    int64_t num_bytes = kLine;
    for (size_t i = 0; i < num_tensors(); ++i) num_bytes += (num_leaves + 1) * PartBytes(i);
    const CompressedScratch::Room room{BlockBegin(size_, num_replicas_),
                                       std::max(num_leaves * LeafBytes(0), BlockBegin(size_, 1)),
                                       num_bytes};
    if (scratch_.agreed.Holds(room)) return;
    AllocateTogether(transport_, [&] {
      AllocateCodes(&scratch_.sent, room.sent);
      AllocateCodes(&scratch_.received, room.received);
      AllocateCodes(&scratch_.values, room.values);
    });
    scratch_.agreed.Grow(room);
  }

  void EncodeParts();
  void SwapCodes();
  HeldLeaves DecodeParts();
  void EncodeResult(const HeldLeaves& held);
  void ShareResult();
  void DecodeResult();

  const CompressedTensors& tensors_;
  const Reduction& reduction_;
  Transport& transport_;
  CompressedScratch& scratch_;
  Timeline* const timeline_;
  CpuArithmetic arithmetic_;
  const std::unique_ptr<Codec> codec_;
  const int rank_;
  const int size_;
  const int num_replicas_;
  const int64_t element_bytes_;
  std::vector<int64_t> num_elements_;
};

void CompressedExecution::EncodeParts() {
  TimelineSpan span(timeline_, "encode", -1, num_replicas_ * ValueBytesOfAll(),
                    BlockBegin(size_, num_replicas_));
  char* code = static_cast<char*>(scratch_.sent.Get(0));
  for (int to = 0; to < size_; ++to) {
    for (int replica = 0; replica < num_replicas_; ++replica) {
      for (size_t i = 0; i < num_tensors(); ++i) {
        const Range part = Part(i, to);
        const int64_t skip = part.begin * element_bytes_;
        void* const residual =
            tensors_.residuals.empty() ? nullptr : At(tensors_.residuals[replica][i], skip);
        codec_->Encode(At(tensors_.inputs[replica][i], skip), residual, part.size(), code);
        code += CodeBytes(i, to);
      }
    }
  }
}

void CompressedExecution::SwapCodes() {
  const int64_t own_bytes = num_replicas_ * LeafBytes(rank_);
  ExchangeParts(
      transport_,
      [&](int to) {
        return ::adasum::Part{At(scratch_.sent.Get(0), BlockBegin(to, num_replicas_)),
                              num_replicas_ * LeafBytes(to)};
      },
      [&](int from) {
        return PartOfResult{At(scratch_.received.Get(0), from * own_bytes), own_bytes};
      });
}

HeldLeaves CompressedExecution::DecodeParts() {
  const int num_leaves = size_ * num_replicas_;
  TimelineSpan span(timeline_, "decode", -1, num_leaves * ValueBytes(rank_),
                    num_leaves * LeafBytes(rank_));
  HeldLeaves held{tensors_.dtype, num_leaves, {}};
  const auto address = reinterpret_cast<uintptr_t>(scratch_.values.Get(0));
  char* room = At(scratch_.values.Get(0), RoundUp(address, kLine) - address);
  int64_t code = 0;
  for (size_t i = 0; i < num_tensors(); ++i) {
    HeldSegment segment{{}, room, Part(i, rank_).size()};
    room += PartBytes(i);
    for (int leaf = 0; leaf < num_leaves; ++leaf) {
      codec_->Decode(At(scratch_.received.Get(0), leaf * LeafBytes(rank_) + code),
                     segment.num_elements, room);
      segment.leaves.push_back(room);
      room += PartBytes(i);
    }
    held.segments.push_back(std::move(segment));
    code += CodeBytes(i, rank_);
  }
  return held;
}

void CompressedExecution::EncodeResult(const HeldLeaves& held) {
  TimelineSpan span(timeline_, "encode", -1, ValueBytes(rank_), LeafBytes(rank_));
  char* code = static_cast<char*>(scratch_.sent.Get(0));
  for (size_t i = 0; i < num_tensors(); ++i) {
    void* const residual = tensors_.part_residuals.empty() ? nullptr : tensors_.part_residuals[i];
    codec_->Encode(held.segments[i].out, residual, held.segments[i].num_elements, code);
    code += CodeBytes(i, rank_);
  }
}

void CompressedExecution::ShareResult() {
  ExchangeParts(
      transport_, [&](int) { return ::adasum::Part{scratch_.sent.Get(0), LeafBytes(rank_)}; },
      [&](int from) {
        return PartOfResult{At(scratch_.received.Get(0), BlockBegin(from, 1)), LeafBytes(from)};
      });
}

// The own part, too, so that all ranks have the same.
void CompressedExecution::DecodeResult() {
  TimelineSpan span(timeline_, "decode", -1, ValueBytesOfAll(), BlockBegin(size_, 1));
  const char* code = static_cast<const char*>(scratch_.received.Get(0));
  for (int from = 0; from < size_; ++from) {
    for (size_t i = 0; i < num_tensors(); ++i) {
      const Range part = Part(i, from);
      codec_->Decode(code, part.size(), At(tensors_.outputs[i], part.begin * element_bytes_));
      code += CodeBytes(i, from);
    }
  }
}

}  // namespace

void ExecuteCompressedAllreduce(const CompressedTensors& tensors, const Reduction& reduction,
                                Transport& transport, InstructionSet instruction_set,
                                CompressedScratch& scratch, Timeline* timeline) {
  CompressedExecution(tensors, reduction, transport, instruction_set, scratch, timeline).Run();
}

}  // namespace adasum
