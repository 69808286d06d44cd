#include "cc/collectives/compressed_execution.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <string>

#include "cc/algorithms/ring_turns.h"
#include "cc/algorithms/schedule.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/code_places.h"
#include "cc/collectives/parts.h"
#include "cc/collectives/reduce_held.h"
#include "cc/collectives/rows.h"
#include "cc/compression/codec.h"
#include "cc/core/bytes.h"
#include "cc/core/error.h"

namespace adasum {
namespace {

constexpr int64_t kLine = 64;  // bytes
// Values of a group that is encoded and decoded while others are on a network: so many that the
// first and the last, which nothing hides, take little; many more than a message costs.
constexpr int64_t kGroupElements = int64_t{2} << 20;

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
        num_leaves_(size_ * num_replicas_),
        element_bytes_(ElementBytes(tensors.dtype)),
        num_elements_(NumElements(tensors.shapes)),
        is_posted_(IsNetworkOnly(transport)),
        places_(*codec_, num_elements_, is_posted_ ? kGroupElements : kAllElements, size_, rank_,
                num_replicas_) {}

  void Run() {
    if (num_leaves_ == 1) return DeliverInputs();
    Allocate();
    is_posted_ ? ScatterByTurns() : ScatterAtOnce();
    ReduceHeld(held_, reduction_, transport_, arithmetic_);
    is_posted_ ? GatherByTurns() : GatherAtOnce();
  }

 private:
  static constexpr int64_t kAllElements = std::numeric_limits<int64_t>::max();

  static std::vector<int64_t> NumElements(const std::vector<Shape>& shapes) {
    std::vector<int64_t> counts;
    for (const Shape& shape : shapes) {
      counts.push_back(
          std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>()));
    }
    return counts;
  }

  int64_t num_groups() const { return static_cast<int64_t>(places_.groups().size()); }
  // Of the values of a group's parts for a rank.
  int64_t ValueBytes(int64_t group, int rank) const {
    int64_t num_bytes = 0;
    for (size_t i = places_.groups()[group].begin; i < places_.groups()[group].end; ++i) {
      num_bytes += places_.Part(i, rank).size() * element_bytes_;
    }
    return num_bytes;
  }
  // Of the longest part, the first.
  int64_t PartBytes(size_t tensor) const {
    return RoundUp(places_.Part(tensor, 0).size() * element_bytes_, kLine);
  }
  char* Sent(int64_t begin) const { return At(scratch_.sent.Get(0), begin); }
  char* Received(int64_t begin) const { return At(scratch_.received.Get(0), begin); }

  void DeliverInputs() {
    for (size_t i = 0; i < num_elements_.size(); ++i) {
      arithmetic_.Deliver(tensors_.outputs[i], tensors_.inputs[0][i],
                          num_elements_[i] * element_bytes_);
    }
    arithmetic_.Finish();
  }

  void Allocate();
  void ScatterAtOnce();
  void ScatterByTurns();
  void GatherAtOnce();
  void GatherByTurns();
  void Encode(int64_t group, int to, char* code);
  void DecodeLeaves(int64_t group);
  void EncodeResult(int64_t group);
  void DecodeResult(int64_t group, int from, const char* code);

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
  const int num_leaves_;
  const int64_t element_bytes_;
  const std::vector<int64_t> num_elements_;
  const bool is_posted_;  // messages, while the next group is encoded and the last one decoded
  const CodePlaces places_;
  HeldLeaves held_;
  char* room_ = nullptr;  // for values, behind those of `held_`
};

// As much on all ranks, so that all find alike whether there is enough from earlier requests.
void CompressedExecution::Allocate() {
  int64_t num_bytes = kLine;
  for (size_t i = 0; i < num_elements_.size(); ++i) num_bytes += (num_leaves_ + 1) * PartBytes(i);
  const CompressedScratch::Room room{
      num_replicas_ * places_.BytesForAll(),
      std::max(num_leaves_ * places_.BytesFor(0), places_.BytesForAll()), num_bytes};
  if (!scratch_.agreed.Holds(room)) {
    AllocateTogether(transport_, [&] {
      AllocateCodes(&scratch_.sent, room.sent);
      AllocateCodes(&scratch_.received, room.received);
      AllocateCodes(&scratch_.values, room.values);
    });
    scratch_.agreed.Grow(room);
  }
  const auto address = reinterpret_cast<uintptr_t>(scratch_.values.Get(0));
  room_ = At(scratch_.values.Get(0), RoundUp(address, kLine) - address);
  held_ = {tensors_.dtype, num_leaves_, {}};
}

void CompressedExecution::ScatterAtOnce() {
  for (int64_t group = 0; group < num_groups(); ++group) {
    for (int to = 0; to < size_; ++to) Encode(group, to, Sent(places_.Sent(group, to)));
    const int64_t own_bytes = num_replicas_ * places_.Bytes(group, rank_);
    ExchangeParts(
        transport_,
        [&](int to) {
          return Part{Sent(places_.Sent(group, to)), num_replicas_ * places_.Bytes(group, to)};
        },
        [&](int from) { return PartOfResult{Received(places_.Received(group, from)), own_bytes}; });
    DecodeLeaves(group);
  }
}

void CompressedExecution::ScatterByTurns() {
  std::vector<bool> is_encoded(num_groups() * size_);
  TakeRingTurns(
      transport_, num_groups(),
      [&](const RingTurn& turn) {
        char* const codes = Sent(places_.Sent(turn.chunk, turn.to));
        auto&& is_done = is_encoded[turn.chunk * size_ + turn.to];
        if (!is_done) Encode(turn.chunk, turn.to, codes);
        is_done = true;
        return Send{turn.to, codes, num_replicas_ * places_.Bytes(turn.chunk, turn.to)};
      },
      [&](const RingTurn& turn) {
        return Recv{turn.from, Received(places_.Received(turn.chunk, turn.from)),
                    num_replicas_ * places_.Bytes(turn.chunk, rank_)};
      },
      [&](const RingTurn& turn) {
        if (!turn.is_last) return;
        Encode(turn.chunk, rank_, Received(places_.Received(turn.chunk, rank_)));
        DecodeLeaves(turn.chunk);
      });
}

void CompressedExecution::GatherAtOnce() {
  for (int64_t group = 0; group < num_groups(); ++group) {
    EncodeResult(group);
    ExchangeParts(
        transport_,
        [&](int) { return Part{Sent(places_.ResultSent(group)), places_.Bytes(group, rank_)}; },
        [&](int from) {
          return PartOfResult{Received(places_.ResultReceived(group, from)),
                              places_.Bytes(group, from)};
        });
    for (int from = 0; from < size_; ++from) {
      DecodeResult(group, from, Received(places_.ResultReceived(group, from)));
    }
  }
}

void CompressedExecution::GatherByTurns() {
  int64_t num_encoded = 0;
  TakeRingTurns(
      transport_, num_groups(),
      [&](const RingTurn& turn) {
        while (num_encoded <= turn.chunk) EncodeResult(num_encoded++);
        return Send{turn.to, Sent(places_.ResultSent(turn.chunk)),
                    places_.Bytes(turn.chunk, rank_)};
      },
      [&](const RingTurn& turn) {
        return Recv{turn.from, Received(places_.ResultReceived(turn.chunk, turn.from)),
                    places_.Bytes(turn.chunk, turn.from)};
      },
      [&](const RingTurn& turn) {
        DecodeResult(turn.chunk, turn.from,
                     Received(places_.ResultReceived(turn.chunk, turn.from)));
        // The own part, too, so that all ranks have the same.
        if (turn.is_last) DecodeResult(turn.chunk, rank_, Sent(places_.ResultSent(turn.chunk)));
      });
}

// All replicas' parts for a rank.
void CompressedExecution::Encode(int64_t group, int to, char* code) {
  TimelineSpan span(timeline_, "encode", -1, num_replicas_ * ValueBytes(group, to),
                    num_replicas_ * places_.Bytes(group, to));
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

// All leaves' values of this rank's part, behind those of the groups before.
void CompressedExecution::DecodeLeaves(int64_t group) {
  TimelineSpan span(timeline_, "decode", -1, num_leaves_ * ValueBytes(group, rank_),
                    num_leaves_ * places_.Bytes(group, rank_));
  const CodeGroup& tensors = places_.groups()[group];
  const char* code = Received(places_.Received(group, 0));
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

void CompressedExecution::EncodeResult(int64_t group) {
  TimelineSpan span(timeline_, "encode", -1, ValueBytes(group, rank_), places_.Bytes(group, rank_));
  const CodeGroup& tensors = places_.groups()[group];
  char* code = Sent(places_.ResultSent(group));
  for (size_t i = tensors.begin; i < tensors.end; ++i) {
    void* const residual = tensors_.part_residuals.empty() ? nullptr : tensors_.part_residuals[i];
    codec_->Encode(held_.segments[i].out, residual, held_.segments[i].num_elements, code);
    code += places_.CodeBytes(i, rank_);
  }
}

void CompressedExecution::DecodeResult(int64_t group, int from, const char* code) {
  TimelineSpan span(timeline_, "decode", -1, ValueBytes(group, from), places_.Bytes(group, from));
  const CodeGroup& tensors = places_.groups()[group];
  for (size_t i = tensors.begin; i < tensors.end; ++i) {
    const Range part = places_.Part(i, from);
    codec_->Decode(code, part.size(), At(tensors_.outputs[i], part.begin * element_bytes_));
    code += places_.CodeBytes(i, from);
  }
}

}  // namespace

void ExecuteCompressedAllreduce(const CompressedTensors& tensors, const Reduction& reduction,
                                Transport& transport, InstructionSet instruction_set,
                                CompressedScratch& scratch, Timeline* timeline) {
  CompressedExecution(tensors, reduction, transport, instruction_set, scratch, timeline).Run();
}

}  // namespace adasum
