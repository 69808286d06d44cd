// Stores go past the caches where a peer is far, and come back when it is near again.

#include "cc/algorithms/peer_stores.h"

#include "tests/cc/check.h"

namespace adasum {
namespace {

// A clock that only moves while something is written.
double now = 0;
double Now() { return now; }

// Seconds per byte, through and past the caches.
struct Costs {
  double through, past;
};
constexpr Costs kNear{0.12, 0.1}, kAway{1.2, 0.1};

// What `count` writes of `num_bytes` took, and how many of their bytes went past the caches.
struct Written {
  double seconds = 0;
  int64_t num_bytes_past = 0;
};

Written Write(PeerStores* stores, int peer, int64_t num_bytes, int count, const Costs& costs) {
  Written written;
  const double begin = now;
  for (int i = 0; i < count; ++i) {
    int64_t next = 0;
    stores->ForPeer(peer, num_bytes, [&](int64_t from, int64_t n, bool is_past_caches) {
      CHECK_EQ(from, next);
      CHECK_EQ(from % PeerStores::kProbeBytes, 0);
      next = from + n;
      now += static_cast<double>(n) * (is_past_caches ? costs.past : costs.through);
      written.num_bytes_past += is_past_caches ? n : 0;
    });
    CHECK_EQ(next, num_bytes);
  }
  written.seconds = now - begin;
  return written;
}

double Share(const Written& written, int64_t num_bytes, int count) {
  return static_cast<double>(written.num_bytes_past) / static_cast<double>(num_bytes * count);
}

constexpr int64_t kChunk = int64_t{256} << 10;

TEST(AllIsWrittenOnce) {
  PeerStores stores(PeerStores::kFar, Now);
  for (int64_t num_bytes : {0, 1, 2047, 2048, 8191, 8192, 8200, 262144}) {
    Write(&stores, 0, num_bytes, 40, kNear);
    Write(&stores, 0, num_bytes, 40, kAway);
  }
}

TEST(NearThroughTheCachesAndFarPastThem) {
  PeerStores stores(PeerStores::kFar, Now);
  CHECK_TRUE(Share(Write(&stores, 0, kChunk, 160, kNear), kChunk, 160) < 0.08);
  CHECK_TRUE(!stores.IsPastCachesForAny());
  PeerStores others(PeerStores::kFar, Now);
  CHECK_TRUE(Share(Write(&others, 0, kChunk, 160, kAway), kChunk, 160) > 0.98);
  CHECK_TRUE(others.IsPastCachesForAny());
}

// Chunks of a few milliseconds' work are enough to find out, both ways.
TEST(CoresThatMoveAreFollowedSoon) {
  PeerStores stores(PeerStores::kFar, Now);
  for (int turn = 0; turn < 5; ++turn) {
    Write(&stores, 0, kChunk, 20, kAway);
    CHECK_TRUE(stores.IsPastCachesForAny());
    Write(&stores, 0, kChunk, 20, kNear);
    CHECK_TRUE(!stores.IsPastCachesForAny());
  }
}

TEST(EachPeerIsKnownForItself) {
  PeerStores stores(PeerStores::kFar, Now);
  for (int i = 0; i < 100; ++i) {
    Write(&stores, 3, kChunk, 1, kAway);
    Write(&stores, 1, kChunk, 1, kNear);
  }
  CHECK_EQ(Write(&stores, 3, kChunk, 1, kAway).num_bytes_past > 0, true);
  CHECK_EQ(Write(&stores, 1, kChunk, 1, kNear).num_bytes_past, 0);
}

// To look whether a far peer came near costs little.
TEST(TrialsAreCheap) {
  PeerStores stores(PeerStores::kFar, Now);
  Write(&stores, 0, kChunk, 20, kAway);
  const double seconds = Write(&stores, 0, kChunk, 160, kAway).seconds;
  CHECK_TRUE(seconds < 1.05 * 160 * kChunk * kAway.past);
}

// A thread that loses its core for a while.
TEST(OneLateWriteChangesNothing) {
  PeerStores stores(PeerStores::kFar, Now);
  Write(&stores, 0, kChunk, 20, kNear);
  Write(&stores, 0, kChunk, 1, {1000, 1000});
  CHECK_TRUE(!stores.IsPastCachesForAny());
}

// What is too short to be timed goes through the caches.
TEST(ShortOnes) {
  PeerStores stores(PeerStores::kFar, Now);
  CHECK_EQ(Write(&stores, 0, PeerStores::kLeastTimed - 1, 100, kAway).num_bytes_past, 0);
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
