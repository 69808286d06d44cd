#include "cc/collectives/tensor_codes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cc/collectives/take_together.h"
#include "cc/core/bytes.h"
#include "cc/core/error.h"

namespace adasum {

TensorCodes::TensorCodes(const CompressedTensors& tensors, std::vector<int64_t> num_elements,
                         const Transport& transport, CompressedScratch& scratch,
                         InstructionSet instruction_set, int64_t group_elements, Timeline* timeline)
    : tensors_(tensors),
      scratch_(scratch),
      timeline_(timeline),
      codec_(MakeCodec(tensors.codec, tensors.dtype, CodecKernelsOf(instruction_set))),
      numbers_(tensors.replica_counts, transport.size(), static_cast<int>(tensors.inputs.size())),
      rank_(transport.rank()),
      size_(transport.size()),
      num_replicas_(numbers_.CountOf(rank_)),
      num_leaves_(numbers_.num_leaves()),
      element_bytes_(ElementBytes(tensors.dtype)),
      places_(*codec_, std::move(num_elements), group_elements, numbers_, rank_) {}

// As much on all ranks, so that all find alike whether there is enough from earlier requests.
void TensorCodes::Allocate(Transport& transport) {
  int64_t num_bytes = kLineBytes;
  for (size_t i = 0; i < tensors_.shapes.size(); ++i) {
    num_bytes += (num_leaves_ + 1) * PartBytes(i);
  }
  const CompressedScratch::Room room{
      numbers_.most_replicas() * places_.BytesForAll(),
      std::max(num_leaves_ * places_.BytesFor(0), places_.BytesForAll()), num_bytes};
  if (!scratch_.agreed.Holds(room)) {
    CompressedScratch::Room grown = scratch_.agreed;
    grown.Grow(room);
    scratch_.agreed = {};  // what a rank had is gone where it gets no more
    AllocateTogether(transport, "encoded tensors", [&] {
      AllocateScratch(&scratch_.sent, grown.sent);
      AllocateScratch(&scratch_.received, grown.received);
      AllocateScratch(&scratch_.values, grown.values);
    });
    scratch_.agreed = grown;
  }
  const auto address = reinterpret_cast<intptr_t>(scratch_.values.Get(0));
  room_ = At(scratch_.values.Get(0), InLines(address) - address);
  held_ = {tensors_.dtype, num_leaves_, {}};
}

CodeSpan TensorCodes::Sent(int64_t group, int to) const {
  return {At(scratch_.sent.Get(0), places_.Sent(group, to)),
          num_replicas_ * places_.Bytes(group, to)};
}

CodeSpan TensorCodes::Received(int64_t group, int from) const {
  return {At(scratch_.received.Get(0), places_.Received(group, from)),
          numbers_.CountOf(from) * places_.Bytes(group, rank_)};
}

CodeSpan TensorCodes::ResultSent(int64_t group) const {
  return {At(scratch_.sent.Get(0), places_.ResultSent(group)), places_.Bytes(group, rank_)};
}

CodeSpan TensorCodes::ResultReceived(int64_t group, int from) const {
  return {At(scratch_.received.Get(0), places_.ResultReceived(group, from)),
          places_.Bytes(group, from)};
}

// Of the values of a group's parts for a rank.
int64_t TensorCodes::ValueBytes(int64_t group, int rank) const {
  int64_t num_bytes = 0;
  for (size_t i = places_.groups()[group].begin; i < places_.groups()[group].end; ++i) {
    num_bytes += places_.Part(i, rank).size() * element_bytes_;
  }
  return num_bytes;
}

// Of the longest part, the first.
int64_t TensorCodes::PartBytes(size_t tensor) const {
  return InLines(places_.Part(tensor, 0).size() * element_bytes_);
}

void TensorCodes::EncodeLeaves(int64_t group, int to, const CodeSpan& codes) {
  TimelineSpan span(timeline_, "encode", -1, num_replicas_ * ValueBytes(group, to),
                    codes.num_bytes);
  char* code = codes.bytes;
  const CodeGroup& tensors = places_.groups()[group];
  for (int replica = 0; replica < num_replicas_; ++replica) {
    for (size_t i = tensors.begin; i < tensors.end; ++i) {
      const Range part = places_.Part(i, to);
      const int64_t skip = part.begin * element_bytes_;
      void* const residual =
          tensors_.residuals.empty() ? nullptr : At(tensors_.residuals[replica][i], skip);
      codec_->Encode(At(tensors_.inputs[replica][i], skip), residual, part.size(), code);
      code += places_.CodeBytes(i, to);
    }
  }
}

void TensorCodes::DecodeLeaves(int64_t group) {
  TimelineSpan span(timeline_, "decode", -1, num_leaves_ * ValueBytes(group, rank_),
                    num_leaves_ * places_.Bytes(group, rank_));
  const CodeGroup& tensors = places_.groups()[group];
  const char* code = Received(group, 0).bytes;
  for (size_t i = tensors.begin; i < tensors.end; ++i) {
    HeldSegment segment{{}, room_, places_.Part(i, rank_).size()};
    for (int leaf = 0; leaf < num_leaves_; ++leaf) {
      room_ += PartBytes(i);
      codec_->Decode(At(code, leaf * places_.Bytes(group, rank_)), segment.num_elements, room_);
      segment.leaves.push_back(room_);
    }
    room_ += PartBytes(i);
    held_.segments.push_back(std::move(segment));
    code += places_.CodeBytes(i, rank_);
  }
}

void TensorCodes::EncodeResult(int64_t group) {
  TimelineSpan span(timeline_, "encode", -1, ValueBytes(group, rank_), places_.Bytes(group, rank_));
  const CodeGroup& tensors = places_.groups()[group];
  char* code = ResultSent(group).bytes;
  for (size_t i = tensors.begin; i < tensors.end; ++i) {
    void* const residual = tensors_.part_residuals.empty() ? nullptr : tensors_.part_residuals[i];
    codec_->Encode(held_.segments[i].out, residual, held_.segments[i].num_elements, code);
    code += places_.CodeBytes(i, rank_);
  }
}

void TensorCodes::DecodeResult(int64_t group, int from, const CodeSpan& codes) {
  TimelineSpan span(timeline_, "decode", -1, ValueBytes(group, from), codes.num_bytes);
  const char* code = codes.bytes;
  const CodeGroup& tensors = places_.groups()[group];
  for (size_t i = tensors.begin; i < tensors.end; ++i) {
    const Range part = places_.Part(i, from);
    codec_->Decode(code, part.size(), At(tensors_.outputs[i], part.begin * element_bytes_));
    code += places_.CodeBytes(i, from);
  }
}

}  // namespace adasum
