// Where the codes of an allreduce of encoded tensors lie, in what is sent and what is received.
#ifndef ADASUM_COLLECTIVES_CODE_PLACES_H_
#define ADASUM_COLLECTIVES_CODE_PLACES_H_

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "cc/algorithms/schedule.h"
#include "cc/compression/codec.h"
#include "cc/core/leaf_numbers.h"

namespace adasum {

// Tensors [begin, end), whose codes travel together.
struct CodeGroup {
  size_t begin, end;
};

// Of every group, behind each other: first what leaves send, the codes of parts, those for a rank
// together, leaf by leaf; later the codes of the results. All ranks compute alike.
class CodePlaces {
 public:
  // `num_elements` of every tensor; groups of at least `group_elements` values, but for the last.
  // `codec` and `numbers` outlive it.
  CodePlaces(const Codec& codec, std::vector<int64_t> num_elements, int64_t group_elements,
             const LeafNumbers& numbers, int rank)
      : codec_(codec),
        num_elements_(std::move(num_elements)),
        numbers_(numbers),
        size_(numbers.num_ranks()),
        rank_(rank) {
    int64_t in_group = 0;
    for (size_t i = 0; i < num_elements_.size(); ++i) {
      if (groups_.empty() || in_group >= group_elements) {
        groups_.push_back({i, i});
        in_group = 0;
      }
      groups_.back().end = i + 1;
      in_group += num_elements_[i];
    }
    before_.push_back(std::vector<int64_t>(size_));
    for (const CodeGroup& group : groups_) {
      std::vector<int64_t> sums = before_.back();
      for (int r = 0; r < size_; ++r) sums[r] += GroupBytes(group, r);
      before_.push_back(std::move(sums));
    }
    for (const std::vector<int64_t>& of_ranks : before_) {
      all_before_.push_back(std::accumulate(of_ranks.begin(), of_ranks.end(), int64_t{0}));
    }
  }

  const std::vector<CodeGroup>& groups() const { return groups_; }
  Range Part(size_t tensor, int rank) const { return PartOf(rank, size_, num_elements_[tensor]); }
  // Codes lie at addresses that a value may lie at.
  int64_t CodeBytes(size_t tensor, int rank) const {
    constexpr int64_t kUnit = sizeof(double);
    return (codec_.EncodedBytes(Part(tensor, rank).size()) + kUnit - 1) / kUnit * kUnit;
  }
  // Of one leaf, a group's codes for a rank.
  int64_t Bytes(int64_t group, int rank) const {
    return before_[group + 1][rank] - before_[group][rank];
  }
  // Of one leaf, all codes for a rank, and for all ranks.
  int64_t BytesFor(int rank) const { return before_.back()[rank]; }
  int64_t BytesForAll() const { return all_before_.back(); }

  // Where this rank's codes of a group for a rank begin, of all its leaves.
  int64_t Sent(int64_t group, int to) const {
    return numbers_.CountOf(rank_) * (all_before_[group] + BytesBelow(group, to));
  }
  // Where those of a rank for this one do.
  int64_t Received(int64_t group, int from) const {
    return numbers_.num_leaves() * before_[group][rank_] +
           numbers_.FirstOf(from) * Bytes(group, rank_);
  }
  // The same of the results.
  int64_t ResultSent(int64_t group) const { return before_[group][rank_]; }
  int64_t ResultReceived(int64_t group, int from) const {
    return all_before_[group] + BytesBelow(group, from);
  }

 private:
  int64_t GroupBytes(const CodeGroup& group, int rank) const {
    int64_t num_bytes = 0;
    for (size_t i = group.begin; i < group.end; ++i) num_bytes += CodeBytes(i, rank);
    return num_bytes;
  }
  int64_t BytesBelow(int64_t group, int rank) const {
    int64_t num_bytes = 0;
    for (int r = 0; r < rank; ++r) num_bytes += Bytes(group, r);
    return num_bytes;
  }

  const Codec& codec_;
  const std::vector<int64_t> num_elements_;
  const LeafNumbers& numbers_;
  const int size_, rank_;
  std::vector<CodeGroup> groups_;
  // Of one leaf, for each rank and for all, the bytes of the groups before each.
  std::vector<std::vector<int64_t>> before_;
  std::vector<int64_t> all_before_;
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_CODE_PLACES_H_
