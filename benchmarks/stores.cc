// Times what one core writes and another then reads, through the caches and past them:
//
//   bazel run -c opt //benchmarks:stores
//
// Two threads, each on a core of its own, write a block, read each other's, and so on, so that each
// writes what the other has read. Lines are apart for rounds in which the cores shared a cache
// ("near": both come to a meeting in less than 200 ns) and in which they shared none ("far"), as
// virtual cores are moved. Medians of up to 600 rounds in each; 10 s a size at most.

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/arithmetic/cpu_kernels.h"
#include "cc/arithmetic/instruction_sets.h"

namespace {

constexpr int kTrips = 50;
constexpr int kMostRounds = 600;
constexpr double kMostSeconds = 10;
constexpr double kFarNanoseconds = 200;
constexpr int64_t kLine = 64;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Both threads come to the same numbers.
class Meeting {
 public:
  void Meet(int me) {
    const int64_t mine = 1 + step_[me].value.load(std::memory_order_relaxed);
    step_[me].value.store(mine, std::memory_order_release);
    while (step_[1 - me].value.load(std::memory_order_acquire) < mine) {
    }
  }

 private:
  struct alignas(2 * kLine) Step {
    std::atomic<int64_t> value{0};
  };
  Step step_[2];
};

struct Block {
  explicit Block(int64_t num_bytes)
      : bytes(static_cast<char*>(std::aligned_alloc(4096, num_bytes)), std::free) {
    std::memset(bytes.get(), 1, num_bytes);
  }
  std::unique_ptr<char, decltype(&std::free)> bytes;
};

// Of one way and one state of the cores: nanoseconds a byte.
struct Times {
  std::vector<double> write, read;
};
using Found = std::map<std::pair<bool, bool>, Times>;  // is far, is past the caches

class Writers {
 public:
  explicit Writers(int64_t num_bytes)
      : num_bytes_(num_bytes),
        own_{Block(num_bytes), Block(num_bytes)},
        shown_{Block(num_bytes), Block(num_bytes)},
        read_{Block(num_bytes), Block(num_bytes)} {}

  Found Run() {
    std::thread other([this] { Work(1); });
    Work(0);
    other.join();
    return found_;
  }

 private:
  void Work(int me) {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(me, &cores);
    pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
    const double end = Now() + kMostSeconds;
    for (int round = 0;; ++round) {
      if (me == 0) is_over_ = round >= 4 * kMostRounds || Now() > end;
      meeting_.Meet(me);
      if (is_over_) return;
      const bool was_far = IsFar(me), is_past = round % 2 == 1;
      const std::pair<double, double> took = WriteAndRead(me, is_past);
      const bool is_far = IsFar(me);
      if (me == 0 && round > 3 && was_far == is_far) {
        Times& times = found_[{is_far, is_past}];
        times.write.push_back(took.first);
        times.read.push_back(took.second);
      }
    }
  }

  bool IsFar(int me) {
    meeting_.Meet(me);
    const double begin = Now();
    for (int i = 0; i < kTrips; ++i) meeting_.Meet(me);
    const double nanoseconds = 1e9 * (Now() - begin) / kTrips;
    if (me == 0) nanoseconds_ = nanoseconds;
    meeting_.Meet(me);
    return nanoseconds_ > kFarNanoseconds;
  }

  std::pair<double, double> WriteAndRead(int me, bool is_past) {
    meeting_.Meet(me);
    const double begin = Now();
    if (is_past) {
      kernels_.stream(shown_[me].bytes.get(), own_[me].bytes.get(), num_bytes_);
#if defined(__x86_64__)
      __builtin_ia32_sfence();
#endif
    } else {
      std::memcpy(shown_[me].bytes.get(), own_[me].bytes.get(), num_bytes_);
    }
    const double written = Now() - begin;
    meeting_.Meet(me);
    const double before = Now();
    std::memcpy(read_[me].bytes.get(), shown_[1 - me].bytes.get(), num_bytes_);
    const double read = Now() - before;
    const double bytes = static_cast<double>(num_bytes_);
    return {1e9 * written / bytes, 1e9 * read / bytes};
  }

  const int64_t num_bytes_;
  const adasum::CpuKernels& kernels_ = adasum::KernelsOf(adasum::WidestInstructionSet());
  Block own_[2], shown_[2], read_[2];
  Meeting meeting_;
  double nanoseconds_ = 0;
  bool is_over_ = false;
  Found found_;
};

}  // namespace

int main() {
  std::printf("| KiB | cores | rounds | write, ns a byte | read | past: write | read | ratio |\n");
  std::printf("|---:|---|---:|---:|---:|---:|---:|---:|\n");
  for (int64_t kib = 4; kib <= 16384; kib *= 4) {
    Found found = Writers(kib << 10).Run();
    for (const bool is_far : {false, true}) {
      const Times &through = found[{is_far, false}], &past = found[{is_far, true}];
      if (through.write.size() < 5 || past.write.size() < 5) continue;
      const double write = Median(through.write), read = Median(through.read);
      const double write_past = Median(past.write), read_past = Median(past.read);
      std::printf("| %ld | %s | %zu | %.3f | %.3f | %.3f | %.3f | %.2f |\n", static_cast<long>(kib),
                  is_far ? "far" : "near", through.write.size() + past.write.size(), write, read,
                  write_past, read_past, (write + read) / (write_past + read_past));
    }
    std::fflush(stdout);
  }
}
