// The arena's heap: blocks of threads, what is kept and given back, limits, and what other
// processes see.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cc/arena/arena.h"
#include "cc/arena/heap.h"
#include "tests/cc/check.h"
#include "tests/cc/child_process.h"

namespace adasum {
namespace {

constexpr int64_t kMiB = 1 << 20;

struct TestHeap : Heap {
  explicit TestHeap(int64_t num_bytes) { CHECK_TRUE(Start(num_bytes)); }
  ~TestHeap() { Stop(); }
  char* Get(int64_t num_bytes, int64_t alignment = 64) {
    return static_cast<char*>(Allocate(num_bytes, alignment));
  }
  // Which the system has behind the file.
  int64_t MemoryBytes() const {
    struct stat status;
    CHECK_EQ(fstat(memory().fd, &status), 0);
    return int64_t{status.st_blocks} * 512;
  }
};

using test::InChild;

TEST(AnotherProcessReadsBlocksThroughTheFile) {
  TestHeap heap(64 * kMiB);
  const ArenaMemory memory = heap.memory();
  char* block = heap.Get(kMiB);
  CHECK_TRUE(block >= memory.base + Heap::kPageBytes);
  std::memset(block, 7, kMiB);
  const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(memory.fd);
  InChild([&] {
    const int fd = open(path.c_str(), O_RDONLY);
    void* map = mmap(nullptr, memory.num_bytes, PROT_READ, MAP_SHARED, fd, 0);
    CHECK_TRUE(map != MAP_FAILED);
    const char* bytes = static_cast<const char*>(map);
    CHECK_EQ(std::memcmp(bytes, &memory.token, sizeof(memory.token)), 0);
    const char* peer_block = bytes + (block - memory.base);
    CHECK_EQ(static_cast<int>(peer_block[0]) + peer_block[kMiB - 1], 14);
  });
  struct stat status;
  fstat(memory.fd, &status);
  CHECK_EQ(static_cast<int>(status.st_mode & 0777), 0600);
  CHECK_TRUE((fcntl(memory.fd, F_GETFD) & FD_CLOEXEC) != 0);
}

TEST(BlocksAreAlignedAndHeld) {
  TestHeap heap(64 * kMiB);
  for (int64_t alignment = 8; alignment <= 4096; alignment *= 2) {
    char* block = heap.Get(100001, alignment);
    CHECK_EQ(static_cast<int64_t>(reinterpret_cast<uintptr_t>(block) % alignment), int64_t{0});
    CHECK_TRUE(heap.Holds(block, 100001));
    CHECK_EQ(heap.UsableBytes(block), int64_t{25 * 4096});
    CHECK_EQ(heap.UsableBytes(block + 4096), int64_t{0});
    CHECK_TRUE(!heap.Free(block + 1) && !heap.Free(block + 4096));
    CHECK_TRUE(heap.Free(block));
    CHECK_TRUE(!heap.Free(block));
  }
  const ArenaMemory memory = heap.memory();
  CHECK_TRUE(heap.Holds(memory.base, memory.num_bytes));
  CHECK_TRUE(!heap.Holds(memory.base, memory.num_bytes + 1));
  CHECK_TRUE(!heap.Holds(memory.base - 1, 1) && !heap.Holds(memory.base + memory.num_bytes, 0));
  CHECK_TRUE(!heap.Free(&heap) && !heap.Holds(nullptr, 0));
}

TEST(WhatDoesNotFitIsRefused) {
  TestHeap heap(16 * kMiB);
  for (int64_t num_bytes : {int64_t{0}, int64_t{-1}, 16 * kMiB, INT64_MAX}) {
    CHECK_TRUE(heap.Get(num_bytes) == nullptr);
  }
  CHECK_TRUE(heap.Get(kMiB, int64_t{1} << 62) == nullptr);
  std::vector<char*> blocks;
  while (char* block = heap.Get(kMiB)) blocks.push_back(block);
  CHECK_EQ(static_cast<int>(blocks.size()), 15);
  for (char* block : blocks) CHECK_TRUE(heap.Free(block));
  // In one piece again.
  CHECK_TRUE(heap.Get(16 * kMiB - 2 * Heap::kPageBytes) != nullptr);
  CHECK_EQ(heap.kept_bytes(), int64_t{0});
}

TEST(FreedBlocksAreUsedAgainWithTheirPages) {
  TestHeap heap(256 * kMiB);
  char* block = heap.Get(100 * kMiB);
  std::memset(block, 1, 100 * kMiB);
  const int64_t before = heap.MemoryBytes();
  heap.Free(block);
  CHECK_EQ(heap.MemoryBytes(), before);
  for (int step = 0; step < 10; ++step) {
    char* small = heap.Get(30 * kMiB);
    char* large = heap.Get(60 * kMiB);
    std::memset(small, 2, 30 * kMiB);
    std::memset(large, 3, 60 * kMiB);
    heap.Free(small);
    heap.Free(large);
  }
  CHECK_EQ(heap.MemoryBytes(), before);
}

TEST(WhatNobodyUsesIsGivenBack) {
  TestHeap heap(512 * kMiB);
  char* block = heap.Get(200 * kMiB);
  std::memset(block, 1, 200 * kMiB);
  heap.Free(block);
  CHECK_TRUE(heap.MemoryBytes() >= 200 * kMiB);
  // Two periods with little in use.
  for (int i = 0; i < 2 * 4096; ++i) heap.Free(heap.Get(kMiB));
  CHECK_AT_MOST(heap.MemoryBytes(), 40 * kMiB);
  CHECK_AT_MOST(heap.kept_bytes(), 40 * kMiB);
  CHECK_TRUE(heap.IsSound());
  // Empty pages are zero, as any that the system gives.
  block = heap.Get(200 * kMiB);
  int64_t sum = 0;
  for (int64_t i = 40 * kMiB; i < 200 * kMiB; i += 4096) sum += block[i];
  CHECK_EQ(sum, int64_t{0});
}

TEST(MemoryIsAtMostWhatWasUsedAtOnce) {
  TestHeap heap(1024 * kMiB);
  std::mt19937 random(1);
  std::vector<char*> blocks(64);
  int64_t most_used = 0;
  for (int call = 0; call < 8000; ++call) {
    char*& block = blocks[random() % blocks.size()];
    if (block != nullptr) heap.Free(block);
    const int64_t num_bytes = 65536 + random() % (random() % 8 == 0 ? 8 * kMiB : kMiB);
    block = heap.Get(num_bytes);
    CHECK_TRUE(block != nullptr);
    for (int64_t i = 0; i < num_bytes; i += 4096) block[i] = 1;
    most_used = std::max(most_used, heap.used_bytes());
  }
  CHECK_AT_MOST(heap.MemoryBytes(), most_used + 33 * kMiB);
  CHECK_AT_MOST(heap.used_bytes() + heap.kept_bytes(), most_used + 33 * kMiB);
  CHECK_TRUE(heap.IsSound());
}

TEST(ThreadsGetBlocksOfTheirOwn) {
  TestHeap heap(256 * kMiB);
  std::vector<std::thread> threads;
  for (int number = 1; number <= 4; ++number) {
    threads.emplace_back([&heap, number] {
      std::mt19937 random(number);
      std::vector<std::pair<char*, int64_t>> blocks;
      for (int call = 0; call < 2000; ++call) {
        const int64_t num_bytes = 4096 * (1 + random() % 100);
        if (char* block = heap.Get(num_bytes)) {
          for (int64_t i = 0; i < num_bytes; i += 512) block[i] = number;
          blocks.push_back({block, num_bytes});
        }
        if (blocks.size() < 20) continue;
        std::swap(blocks[random() % blocks.size()], blocks.back());
        const auto [freed, length] = blocks.back();
        blocks.pop_back();
        for (int64_t i = 0; i < length; i += 512) CHECK_EQ(static_cast<int>(freed[i]), number);
        CHECK_TRUE(heap.Free(freed));
      }
      for (const auto& block : blocks) heap.Free(block.first);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQ(heap.used_bytes(), int64_t{0});
  CHECK_TRUE(heap.IsSound());
}

TEST(AChildHasAllToItself) {
  TestHeap heap(64 * kMiB);
  char* block = heap.Get(kMiB);
  std::memset(block, 1, kMiB);
  heap.BeforeFork();
  const pid_t child = fork();
  if (child == 0) {
    heap.AfterForkInChild();
    CHECK_EQ(static_cast<int>(block[5]), 1);
    std::memset(block, 2, kMiB);
    CHECK_EQ(static_cast<int>(block[5]), 2);
    CHECK_TRUE(heap.Get(kMiB) == nullptr && heap.memory().fd == -1);
    CHECK_TRUE(heap.Free(block));
    // And so has its child.
    heap.BeforeFork();
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      heap.AfterForkInChild();
      CHECK_EQ(static_cast<int>(block[5]), 2);
      block[5] = 3;
      _exit(test::NumFailures() > 0);
    }
    heap.AfterForkInParent();
    int status = -1;
    waitpid(grandchild, &status, 0);
    CHECK_EQ(status, 0);
    CHECK_EQ(static_cast<int>(block[5]), 2);
    _exit(test::NumFailures() > 0);
  }
  heap.AfterForkInParent();
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
  for (int64_t i = 0; i < kMiB; ++i) CHECK_EQ(static_cast<int>(block[i]), 1);
  CHECK_TRUE(heap.Free(block) && heap.Get(kMiB) != nullptr);
}

TEST(AClosedDescriptorIsNotUsed) {
  TestHeap heap(64 * kMiB);
  char* block = heap.Get(kMiB);
  const int fd = heap.memory().fd;
  CHECK_TRUE(fd >= 100);
  close(fd);
  CHECK_EQ(heap.memory().fd, -1);
  // Somebody else's file gets the number.
  const int other = open("/dev/zero", O_RDWR);
  CHECK_EQ(dup2(other, fd), fd);
  CHECK_EQ(heap.memory().fd, -1);
  block[0] = 1;
  CHECK_TRUE(heap.Free(block));
  close(other);
}

TEST(TheProcessHasOne) {
  Arena& arena = Arena::OfProcess();
  const ArenaMemory memory = arena.memory();
  CHECK_TRUE(memory.fd >= 0 && memory.num_bytes >= 16 * kMiB);
  char* block = static_cast<char*>(arena.Allocate(kMiB, 64));
  block[0] = 1;
  CHECK_TRUE(arena.Holds(block, kMiB));
  InChild([&] {
    block[0] = 2;
    CHECK_EQ(arena.memory().fd, -1);
    CHECK_TRUE(arena.Allocate(kMiB, 64) == nullptr);
    CHECK_TRUE(arena.Free(block));
  });
  CHECK_EQ(static_cast<int>(block[0]), 1);
  CHECK_TRUE(arena.Free(block) && !arena.Free(&arena));
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
