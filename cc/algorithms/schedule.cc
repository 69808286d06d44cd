#include "cc/algorithms/schedule.h"

namespace adasum {
namespace {

// Halves meet at a multiple of this many elements, so that two ranks never write to one cache
// line of a shared buffer and vector loads stay aligned.
constexpr int64_t kSplitGranularity = 64;

int LargestPowerOfTwo(int size) {
  int power = 1;
  while (power <= size / 2) power *= 2;
  return power;
}

int64_t Middle(Range range) {
  int64_t half = (range.size() / 2 + kSplitGranularity - 1) / kSplitGranularity;
  return range.begin + std::min(half * kSplitGranularity, range.size());
}

}  // namespace

Schedule MakeSchedule(int rank, int size, int64_t num_elements) {
  Schedule schedule;
  int power = LargestPowerOfTwo(size);
  if (rank >= power) {
    schedule.fold = Fold::kGives;
    schedule.fold_peer = rank - power;
    return schedule;
  }
  if (rank + power < size) {
    schedule.fold = Fold::kTakes;
    schedule.fold_peer = rank + power;
  }
  Range range{0, num_elements};
  for (int distance = 1; distance < power; distance *= 2) {
    bool is_left = (rank & distance) == 0;
    int64_t middle = Middle(range);
    Range lower{range.begin, middle};
    Range upper{middle, range.end};
    range = is_left ? lower : upper;
    schedule.levels.push_back({distance, rank ^ distance, range, is_left ? upper : lower, is_left});
  }
  return schedule;
}

LeafCounts CountLeaves(int rank, int size, int distance) {
  if (distance == 0) return {1, 1};
  const int num_folded = size - LargestPowerOfTwo(size);
  const int first = rank & ~(2 * distance - 1);
  auto count = [&](int begin) {
    return distance + std::min(std::max(num_folded - begin, 0), distance);
  };
  return {count(first), count(first + distance)};
}

std::vector<TreeNode> MakeTree(int size) {
  const int power = LargestPowerOfTwo(size);
  std::vector<TreeNode> tree;
  auto meet = [&](int left, int right, int distance) {
    tree.push_back({left, right, CountLeaves(left, size, distance), false});
  };
  for (int leaf = power; leaf < size; ++leaf) meet(leaf - power, leaf, 0);
  for (int distance = 1; distance < power; distance *= 2) {
    for (int left = 0; left < power; left += 2 * distance) meet(left, left + distance, distance);
  }
  if (!tree.empty()) tree.back().is_final = true;
  return tree;
}

Range PartOf(int rank, int size, int64_t num_elements) {
  auto border = [&](int64_t part) {
    // In two terms, lest the product overflow; rounded up, so that no part is longer than the
    // first.
    const int64_t even =
        num_elements / size * part + (num_elements % size * part + size - 1) / size;
    return std::min((even + kSplitGranularity - 1) / kSplitGranularity * kSplitGranularity,
                    num_elements);
  };
  return {border(rank), border(rank + 1)};
}

}  // namespace adasum
