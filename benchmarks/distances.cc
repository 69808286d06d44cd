// Times memcpy and CopyLines by how far the destination lies behind the source, modulo 4 KiB:
//
//   bazel run -c opt //benchmarks:distances
//
// Bytes a nanosecond, both in the caches as far as they fit, medians of 301 turns, all columns of a
// row in turn. "page" sources lie at a page's begin, "+16" 16 bytes behind it.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "cc/core/copy_bytes.h"

namespace {

using Copy = void (*)(void* to, const void* from, int64_t num_bytes);

constexpr int64_t kPageBytes = 4 << 10, kMostBytes = 1 << 20, kNumTurns = 301;
constexpr int64_t kDistances[] = {0, 1, 16, 31, 32, 64, 2048, kPageBytes - 16};

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<char, Free>;

Block Pages() {
  char* const block =
      static_cast<char*>(std::aligned_alloc(kPageBytes, kMostBytes + 2 * kPageBytes));
  if (block == nullptr) std::abort();
  std::memset(block, 1, kMostBytes + 2 * kPageBytes);
  return Block(block);
}

double Seconds(Copy copy, char* to, const char* from, int64_t num_bytes) {
  const auto begin = std::chrono::steady_clock::now();
  copy(to, from, num_bytes);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void PrintRow(const char* name, Copy copy, char* to, const char* from, int64_t skip,
              int64_t num_bytes) {
  std::vector<double> seconds[std::size(kDistances)];
  for (int64_t turn = 0; turn < kNumTurns; ++turn) {
    for (size_t i = 0; i < std::size(kDistances); ++i) {
      char* const begin = to + (skip + kDistances[i]) % kPageBytes;
      seconds[i].push_back(Seconds(copy, begin, from + skip, num_bytes));
    }
  }
  std::printf("| %lld | %s | %s |", static_cast<long long>(num_bytes >> 10), name,
              skip == 0 ? "page" : "+16");
  for (const std::vector<double>& of_distance : seconds) {
    std::printf(" %.1f |", static_cast<double>(num_bytes) * 1e-9 / Median(of_distance));
  }
  std::printf("\n");
}

}  // namespace

int main() {
  const Block to = Pages(), from = Pages();
  std::printf("| KiB | copy | source |");
  for (int64_t distance : kDistances) std::printf(" %lld |", static_cast<long long>(distance));
  std::printf("\n|---:|---|---|");
  for (size_t i = 0; i < std::size(kDistances); ++i) std::printf("---:|");
  std::printf("\n");
  const Copy memcpy_as_it_is = [](void* out, const void* in, int64_t n) {
    std::memcpy(out, in, n);
  };
  for (int64_t num_bytes : {1 << 10, 4 << 10, 64 << 10, 256 << 10, 1 << 20}) {
    for (int64_t skip : {0, 16}) {
      PrintRow("memcpy", memcpy_as_it_is, to.get(), from.get(), skip, num_bytes);
      PrintRow("CopyLines", adasum::CopyLines, to.get(), from.get(), skip, num_bytes);
    }
  }
}
