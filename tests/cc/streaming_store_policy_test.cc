// The choice follows what is measured, and changes its mind.

#include "cc/collectives/streaming_store_policy.h"

#include "tests/cc/check.h"

namespace adasum {
namespace {

// Collectives of which one way takes `past` seconds and the other `through`; how many went past.
int RunMany(StreamingStorePolicy* choice, const StreamingStorePolicy::Kind& kind, double past,
            double through, int count) {
  int num_past = 0;
  for (int i = 0; i < count; ++i) {
    bool passes = choice->UsesStreamingStores(kind);
    num_past += passes;
    choice->Note(kind, passes, passes ? past : through);
  }
  return num_past;
}

TEST(TheFasterWayIsTakenNearlyAlways) {
  StreamingStorePolicy choice;
  const StreamingStorePolicy::Kind kind{"adasum", true, 1 << 24};
  CHECK_TRUE(RunMany(&choice, kind, 1, 2, 130) >= 115);
  StreamingStorePolicy other;
  CHECK_TRUE(RunMany(&other, kind, 2, 1, 130) <= 15);
}

TEST(TheOtherWayIsTriedAgain) {
  StreamingStorePolicy choice;
  const StreamingStorePolicy::Kind kind{"adasum", true, 1 << 24};
  RunMany(&choice, kind, 1, 2, 130);
  RunMany(&choice, kind, 2, 1, 130);  // the cores were moved
  CHECK_TRUE(RunMany(&choice, kind, 2, 1, 130) <= 15);
}

TEST(OneKindSaysNothingOfAnother) {
  StreamingStorePolicy choice;
  const StreamingStorePolicy::Kind kinds[] = {{"adasum", true, 1 << 24},
                                              {"adasum", false, 1 << 24},
                                              {"sum", true, 1 << 24},
                                              {"adasum", true, 1 << 26},
                                              {"adasum", true, 1 << 26, true}};
  for (int k = 0; k < 5; ++k) RunMany(&choice, kinds[k], k % 2 ? 1 : 2, k % 2 ? 2 : 1, 130);
  for (int k = 0; k < 5; ++k) {
    int num_past = RunMany(&choice, kinds[k], k % 2 ? 1 : 2, k % 2 ? 2 : 1, 130);
    CHECK_TRUE(k % 2 ? num_past >= 115 : num_past <= 15);
  }
}

// What loses much is tried rarely, until the better way is no better any more.
TEST(WhatLosesMuchIsRarelyTried) {
  StreamingStorePolicy choice;
  const StreamingStorePolicy::Kind kind{"adasum", true, 1 << 24};
  RunMany(&choice, kind, 3, 1, 10);
  CHECK_TRUE(RunMany(&choice, kind, 3, 1, 390) <= 2);
  CHECK_TRUE(RunMany(&choice, kind, 3, 10, 100) >= 90);
}

// A collective that something else held up is no reason to change.
TEST(OneLateCollectiveChangesNothing) {
  StreamingStorePolicy choice;
  const StreamingStorePolicy::Kind kind{"adasum", true, 1 << 24};
  RunMany(&choice, kind, 1, 2, 10);
  RunMany(&choice, kind, 1000, 2, 1);
  CHECK_EQ(RunMany(&choice, kind, 1, 2, 1), 1);
}

// One is as good as the other: both are known after the first four.
TEST(BothWaysAreKnownSoon) {
  StreamingStorePolicy choice;
  const StreamingStorePolicy::Kind kind{"adasum", true, 1 << 24};
  int num_past = RunMany(&choice, kind, 1, 1, 4);
  CHECK_TRUE(num_past >= 1 && num_past <= 3);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
