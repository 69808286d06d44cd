#include "cc/collectives/deadline_round.h"

#include <algorithm>
#include <cstring>

#include "cc/core/bytes.h"
#include "cc/core/copy_bytes.h"

namespace adasum {
namespace {

// Lane 0 is that of what ranks tell each other.
constexpr int64_t kLanes = kMaxLanes - 1;
// A year, so that a sum of times is one.
constexpr double kMostMilliseconds = 3.2e10;

}  // namespace

DeadlineRound::DeadlineRound(const DeadlineTensors& tensors, RequestContext* context,
                             Arithmetic* arithmetic, DeadlineState* state)
    : tensors_(tensors),
      context_(*context),
      transport_(context->transport),
      arithmetic_(*arithmetic),
      state_(*state),
      segments_(NumElements(tensors.shapes)),
      element_bytes_(ElementBytes(tensors.dtype)),
      rank_(transport_.rank()),
      size_(transport_.size()),
      chunks_(segments_.num_elements(), element_bytes_, size_),
      half_(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(
          std::min(tensors.milliseconds, kMostMilliseconds) / 2))),
      parts_(&transport_),
      results_(&transport_),
      is_in_(size_ * chunks_.size(), 1),
      is_left_out_(chunks_.size(), 0),
      most_left_out_(static_cast<int64_t>(tensors.max_left_out * size_ *
                                          static_cast<double>(segments_.num_elements()))) {}

void DeadlineRound::Run() {
  TakeLanes();
  SendParts();
  ChooseParts();
  ReduceOwned();
  SendResults();
  ChooseResults();
  Deliver();
  for (ChunkMessages* messages : {&parts_, &results_}) {
    messages->KeepLate(state_.num_calls, &state_.late);
  }
  const double num_elements = static_cast<double>(size_) * segments_.num_elements();
  *tensors_.share = num_elements == 0 ? 0 : num_left_out_ / num_elements;
}

void DeadlineRound::TakeLanes() {
  ++state_.num_calls;
  state_.late.Progress();
  state_.last_call_of_lane.resize(kLanes, 0);
  first_lane_ = state_.num_lanes;
  state_.num_lanes += 2 * chunks_.MostOwned();
  int64_t last = 0;
  for (int64_t lane = first_lane_; lane < state_.num_lanes; ++lane) {
    int64_t& call = state_.last_call_of_lane[lane % kLanes];
    last = std::max(last, call);
    call = state_.num_calls;
  }
  state_.late.Await(last, context_.waits);
}

int DeadlineRound::Lane(int64_t index, bool is_result) const {
  const int64_t lane = first_lane_ + index + (is_result ? chunks_.MostOwned() : 0);
  return static_cast<int>(1 + lane % kLanes);
}

std::vector<Piece> DeadlineRound::OwnPieces(int64_t chunk) const {
  std::vector<Piece> pieces;
  segments_.ForEach(chunks_.Of(chunk), [&](int64_t segment, Range part) {
    const int64_t offset = (part.begin - segments_.offset(segment)) * element_bytes_;
    const char* const own = At(tensors_.inputs[segment], offset);
    pieces.push_back({segment, own, own, nullptr, nullptr, part.size()});
  });
  return pieces;
}

Chunk DeadlineRound::Packed(int64_t chunk) {
  Chunk memory = TakeMemory();
  char* to = memory.get();
  for (const Piece& piece : OwnPieces(chunk)) {
    const int64_t num_bytes = piece.num_elements * element_bytes_;
    arithmetic_.Copy(to, piece.left, num_bytes);
    to += num_bytes;
  }
  return memory;
}

// The first chunks go first: the first layers need them first.
void DeadlineRound::SendParts() {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    ForEachOwned(rank_, [&](int64_t index, int64_t chunk) {
      parts_.AddRecv({peer, nullptr, Bytes(chunk), Lane(index, false)}, TakeMemory());
    });
    ForEachOwned(peer, [&](int64_t index, int64_t chunk) {
      parts_.AddSend({peer, nullptr, Bytes(chunk), Lane(index, false)},
                     [this, chunk] { return Packed(chunk); });
    });
  }
  parts_.Exchange(begin_ + half_, context_.waits);
}

void DeadlineRound::ReduceOwned() {
  ForEachOwned(rank_, [&](int64_t index, int64_t chunk) {
    OwnedChunk owned{chunks_.Of(chunk), std::vector<Chunk>(size_)};
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) {
        owned.leaves[rank] = Packed(chunk);
      } else if (IsIn(rank, chunk)) {
        owned.leaves[rank] = parts_.Received(rank, index);
      } else {
        owned.leaves[rank] = TakeMemory();
        std::memset(owned.leaves[rank].get(), 0, Bytes(chunk));
      }
    }
    owned_.push_back(std::move(owned));
  });
  OwnedChunks(tensors_.dtype, segments_, tensors_.reductions, &transport_, &arithmetic_,
              &state_.moments)
      .Reduce(owned_);
}

void DeadlineRound::SendResults() {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    ForEachOwned(peer, [&](int64_t index, int64_t chunk) {
      results_.AddRecv({peer, nullptr, Bytes(chunk), Lane(index, true)}, TakeMemory());
    });
    ForEachOwned(rank_, [&](int64_t index, int64_t chunk) {
      results_.AddSend({peer, nullptr, Bytes(chunk), Lane(index, true)},
                       [this, index] { return owned_[index].leaves[0]; });
    });
  }
  // Whoever had to wait for parts that count has as long for the results as others.
  results_.Exchange(std::max(begin_ + 2 * half_, Clock::now() + half_), context_.waits);
}

void DeadlineRound::Deliver() {
  for (int64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const int owner = chunks_.OwnerOf(chunk);
    const int64_t index = chunks_.IndexAtOwner(chunk);
    const char* result = nullptr;
    if (is_left_out_[chunk] == 0) {
      result =
          owner == rank_ ? owned_[index].leaves[0].get() : results_.Received(owner, index).get();
    }
    DeliverChunk(chunk, result);
  }
  arithmetic_.Finish();
}

// Without a result the chunk is left out.
void DeadlineRound::DeliverChunk(int64_t chunk, const char* result) {
  const bool is_in = result != nullptr && IsIn(rank_, chunk);
  segments_.ForEach(chunks_.Of(chunk), [&](int64_t segment, Range part) {
    const int64_t offset = (part.begin - segments_.offset(segment)) * element_bytes_;
    const int64_t num_bytes = part.size() * element_bytes_;
    const char* const input = At(tensors_.inputs[segment], offset);
    char* const left_out = At(tensors_.left_out[segment], offset);
    char* const output = At(tensors_.outputs[segment], offset);
    if (is_in) {
      std::memset(left_out, 0, num_bytes);
    } else if (left_out != input) {
      CopyBytes(left_out, input, num_bytes);
    }
    if (result == nullptr) {
      std::memset(output, 0, num_bytes);
      return;
    }
    arithmetic_.Deliver(output, result, num_bytes);
    result += num_bytes;
  });
}

}  // namespace adasum
