// What a call of the allreduce with a deadline leaves out.

#include <algorithm>
#include <cstring>

#include "cc/collectives/deadline_round.h"

namespace adasum {
namespace {

constexpr ChunkMessages::Clock::time_point kNever = ChunkMessages::Clock::time_point::max();

}  // namespace

std::vector<Told> DeadlineRound::TellParts() {
  Told mine(chunks_, size_);
  for (int64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const int owner = chunks_.OwnerOf(chunk);
    if (owner == rank_) continue;
    mine.OfChunk(chunk) = parts_.HasBegun(owner, chunks_.IndexAtOwner(chunk));
  }
  ForEachOwned(rank_, [&](int64_t index, int64_t) {
    for (int peer = 0; peer < size_; ++peer) {
      mine.OfOwned(index, peer) = peer == rank_ || parts_.HasArrived(peer, index);
    }
  });
  return mine.Gather(transport_, &state_.told);
}

void DeadlineRound::ChooseParts() {
  std::vector<Told> told = TellParts();
  std::vector<Missing> missing;
  for (int64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    Told& of_owner = told[chunks_.OwnerOf(chunk)];
    for (int rank = 0; rank < size_; ++rank) {
      if (of_owner.OfOwned(chunks_.IndexAtOwner(chunk), rank) != 0) continue;
      missing.push_back({chunk, rank, chunks_.Of(chunk).size()});
    }
  }
  const std::vector<bool> chosen =
      ChooseLeftOut(missing, most_left_out_, [this](std::vector<Missing>& all) { FindNorms(all); });
  for (size_t i = 0; i < missing.size(); ++i) {
    if (chosen[i]) LeaveOutPart(missing[i], told);
  }
  parts_.Exchange(kNever, context_.waits);
}

void DeadlineRound::LeaveOutPart(const Missing& missing, std::vector<Told>& told) {
  const auto [chunk, rank, num_elements, norm2] = missing;
  const int64_t index = chunks_.IndexAtOwner(chunk);
  const int owner = chunks_.OwnerOf(chunk);
  is_in_[rank * chunks_.size() + chunk] = 0;
  num_left_out_ += num_elements;
  if (rank == rank_) parts_.LeaveOutSend(owner, index);
  if (owner != rank_) return;
  const bool was_sent = told[rank].OfChunk(chunk) != 0;
  parts_.LeaveOutRecv(rank, index, was_sent, state_.num_calls, &state_.late);
}

std::vector<Told> DeadlineRound::TellResults() {
  Told mine(chunks_, size_);
  for (int64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const int owner = chunks_.OwnerOf(chunk);
    mine.OfChunk(chunk) = owner == rank_ || results_.HasArrived(owner, chunks_.IndexAtOwner(chunk));
  }
  ForEachOwned(rank_, [&](int64_t index, int64_t) {
    for (int peer = 0; peer < size_; ++peer) {
      mine.OfOwned(index, peer) = peer != rank_ && results_.HasBegun(peer, index);
    }
  });
  return mine.Gather(transport_, &state_.told);
}

void DeadlineRound::ChooseResults() {
  std::vector<Told> told = TellResults();
  std::vector<Missing> missing;
  for (int64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const bool is_there = std::all_of(told.begin(), told.end(),
                                      [&](Told& of_rank) { return of_rank.OfChunk(chunk) != 0; });
    if (is_there) continue;
    int64_t num_parts = 0;
    for (int rank = 0; rank < size_; ++rank) num_parts += IsIn(rank, chunk);
    missing.push_back({chunk, Missing::kResult, num_parts * chunks_.Of(chunk).size()});
  }
  const std::vector<bool> chosen =
      ChooseLeftOut(missing, most_left_out_ - num_left_out_,
                    [this](std::vector<Missing>& all) { FindNorms(all); });
  for (size_t i = 0; i < missing.size(); ++i) {
    if (chosen[i]) LeaveOutResult(missing[i], told);
  }
  results_.Exchange(kNever, context_.waits);
}

void DeadlineRound::LeaveOutResult(const Missing& missing, std::vector<Told>& told) {
  const int64_t index = chunks_.IndexAtOwner(missing.chunk);
  const int owner = chunks_.OwnerOf(missing.chunk);
  is_left_out_[missing.chunk] = 1;
  num_left_out_ += missing.num_elements;
  if (owner != rank_) {
    const bool was_sent = told[owner].OfOwned(index, rank_) != 0;
    results_.LeaveOutRecv(owner, index, was_sent, state_.num_calls, &state_.late);
    return;
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) results_.LeaveOutSend(peer, index);
  }
}

void DeadlineRound::FindNorms(std::vector<Missing>& missing) {
  if (norms2_.empty()) {
    std::vector<double> own(chunks_.size());
    for (int64_t chunk = 0; chunk < chunks_.size(); ++chunk) {
      std::vector<Piece> pieces = OwnPieces(chunk);
      for (Piece& piece : pieces) piece.segment = 0;
      Moments moments;
      arithmetic_.AddMoments(tensors_.dtype, pieces, &moments);
      arithmetic_.AwaitMoments();
      own[chunk] = moments.left_norm2;
    }
    const size_t num_bytes = own.size() * sizeof(double);
    state_.norms.own.resize(num_bytes);
    std::memcpy(state_.norms.own.data(), own.data(), num_bytes);
    GatherBytes(transport_, &state_.norms);
    norms2_.resize(size_ * own.size());
    std::memcpy(norms2_.data(), state_.norms.all.data(), size_ * num_bytes);
  }
  for (Missing& each : missing) {
    for (int rank = 0; rank < size_; ++rank) {
      const bool counts =
          each.rank == Missing::kResult ? IsIn(rank, each.chunk) : rank == each.rank;
      if (counts) each.norm2 += Norm2(rank, each.chunk);
    }
  }
}

}  // namespace adasum
