// Ranks choose alike between copying and packing, whatever each has seen.

#include "cc/algorithms/cross_memory_policy.h"

#include <vector>

#include "tests/cc/check.h"

namespace adasum {
namespace {

// Lets some ranks choose together, note how long it took, and returns whether they copied.
bool ChooseTogether(const std::vector<CrossMemoryPolicy*>& ranks, double packed, double copied) {
  const CrossMemoryPolicy::Kind kind{true, 1 << 20};
  std::vector<WaysSeen> told;
  for (CrossMemoryPolicy* rank : ranks) told.push_back(rank->Seen(kind));
  const bool copies = ranks[0]->Copies(kind, told);
  for (size_t i = 1; i < ranks.size(); ++i) CHECK_EQ(ranks[i]->Copies(kind, told), copies);
  for (size_t i = 0; i < ranks.size(); ++i) {
    ranks[i]->Note(kind, copies, (copies ? copied : packed) / static_cast<double>(i + 1));
  }
  return copies;
}

// Ranks see unlike times, and choose alike; what was quicker is left when it is no more.
TEST(RanksChooseAlike) {
  CrossMemoryPolicy a, b, c;
  int num_copied = 0;
  for (int i = 0; i < 200; ++i) num_copied += ChooseTogether({&a, &b, &c}, 2e-3, 1e-3);
  CHECK_TRUE(num_copied >= 190);
  num_copied = 0;
  for (int i = 0; i < 400; ++i) num_copied += ChooseTogether({&a, &b, &c}, 1e-3, 3e-3);
  CHECK_AT_MOST(num_copied, 20);
}

// Not all ranks take part in every collective: those that meet choose alike, whatever each has
// seen with others.
TEST(RanksThatMetOthersChooseAlike) {
  CrossMemoryPolicy a, b, c;
  int num_copied = 0;
  for (int i = 0; i < 300; ++i) {
    num_copied += ChooseTogether({&a, &b, &c}, 2e-3, 1e-3);
    for (int more = 0; more < i % 3; ++more) ChooseTogether({&a, &b}, 1e-3, 2e-3);
    if (i % 7 == 0) ChooseTogether({&c, &b}, 2e-3, 1e-3);
  }
  CHECK_TRUE(num_copied > 0);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
