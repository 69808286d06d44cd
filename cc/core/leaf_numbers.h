// How the replicas of all ranks are numbered as leaves: those of a rank follow each other.
#ifndef ADASUM_CORE_LEAF_NUMBERS_H_
#define ADASUM_CORE_LEAF_NUMBERS_H_

#include <algorithm>
#include <vector>

namespace adasum {

class LeafNumbers {
 public:
  // Of ranks that have at least one replica each.
  explicit LeafNumbers(const std::vector<int>& replica_counts) {
    for (int count : replica_counts) Add(count);
  }
  // Where `replica_counts` is empty, all ranks have as many as this one.
  LeafNumbers(const std::vector<int>& replica_counts, int num_ranks, int num_replicas)
      : LeafNumbers(replica_counts) {
    while (this->num_ranks() < num_ranks) Add(num_replicas);
  }

  int num_ranks() const { return static_cast<int>(begins_.size()) - 1; }
  int num_leaves() const { return begins_.back(); }
  // Of the rank that has most of them.
  int most_replicas() const { return most_; }
  int CountOf(int rank) const { return begins_[rank + 1] - begins_[rank]; }
  int FirstOf(int rank) const { return begins_[rank]; }
  int RankOf(int leaf) const { return ranks_[leaf]; }
  int ReplicaOf(int leaf) const { return leaf - begins_[ranks_[leaf]]; }

 private:
  void Add(int count) {
    ranks_.insert(ranks_.end(), count, num_ranks());
    begins_.push_back(begins_.back() + count);
    most_ = std::max(most_, count);
  }

  std::vector<int> begins_ = {0};  // of each rank, and the end
  std::vector<int> ranks_;         // of each leaf
  int most_ = 0;
};

}  // namespace adasum

#endif  // ADASUM_CORE_LEAF_NUMBERS_H_
