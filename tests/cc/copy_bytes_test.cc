// Copies are exact wherever both ends lie, and write nothing beside them.
#include "cc/core/copy_bytes.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/cc/check.h"

namespace adasum {
namespace {

using test::Scope;

constexpr int64_t kPageBytes = 4 << 10, kRoom = 4 * kPageBytes;
constexpr char kUntouched = 0x55;

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Block = std::unique_ptr<char, Free>;

Block Pages() { return Block(static_cast<char*>(std::aligned_alloc(kPageBytes, kRoom))); }

char Value(int64_t i) { return static_cast<char>(i * 7 + i / 256); }

void Check(void (*copy)(void*, const void*, int64_t), int64_t to, int64_t from, int64_t num_bytes) {
  static const Block source = Pages(), target = Pages();
  for (int64_t i = 0; i < kRoom; ++i) {
    source.get()[i] = Value(i);
    target.get()[i] = kUntouched;
  }
  copy(target.get() + to, source.get() + from, num_bytes);
  bool is_exact = true;
  for (int64_t i = 0; i < kRoom; ++i) {
    const bool is_copied = to <= i && i < to + num_bytes;
    is_exact = is_exact && target.get()[i] == (is_copied ? Value(from + i - to) : kUntouched);
  }
  CHECK_TRUE(is_exact);
}

// CopyBytes leaves its own loop to some processors and distances: the loop is tested by itself.
TEST(EveryDistanceAndLength) {
  for (auto copy : {CopyBytes, CopyLines}) {
    for (int64_t to : {0, 1, 16, 31, 32, 63, 64, 100}) {
      for (int64_t from : {0, 1, 15, 16, 64, 84}) {
        for (int64_t num_bytes : {0, 1, 63, 64, 65, 2047, 2048, 2049, 8192, 10001}) {
          Scope scope("to " + std::to_string(to) + ", from " + std::to_string(from) + ", " +
                      std::to_string(num_bytes) + " bytes");
          Check(copy, to, from, num_bytes);
        }
      }
    }
  }
}

TEST(NothingFromNowhere) { CopyBytes(nullptr, nullptr, 0); }

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
