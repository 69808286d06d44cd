// How long the allreduce of lists of tensors takes that lie on one GPU which several ranks share:
//
//   python3 -m benchmarks.gradient_lists resnet50 | tests/gpu/build/times 2
//
// Each line read is a name and numbers of float32 elements. Ways, interleaved: "ipc", ranks read
// each other's device memory; "staged", through pinned host memory (TF_ADASUM_CUDA_IPC=0); "host",
// what a framework does without TF_ADASUM_GPU=1: all tensors to pinned host memory, the allreduce
// there, and back; "copy", each rank's device-to-device copy of the tensors one by one, as a floor.
// Milliseconds: medians of the slowest rank's times.

#include <cuda_runtime.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/scratch.h"
#include "cc/cuda/cuda_state.h"
#include "cc/cuda/resources.cu.h"
#include "tests/cc/check.h"
#include "tests/cc/processes.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace {

constexpr int kLimitSeconds = 200;
constexpr int kRepetitions = 15;
const char* const kWays[] = {"copy", "ipc", "staged", "host"};

struct List {
  std::string name;
  std::vector<int64_t> counts;
};

std::vector<List> ReadLists() {
  std::vector<List> lists;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    List list;
    words >> list.name;
    for (int64_t count = 0; words >> count;) list.counts.push_back(count);
    if (!list.counts.empty()) lists.push_back(list);
  }
  return lists;
}

// What the processes share beside their board.
struct Meeting {
  std::atomic<int64_t> num_come;
  std::atomic<int64_t> slowest_nanoseconds;

  void Meet(int size) {
    const int64_t mine = num_come.fetch_add(1);
    const int64_t all = (mine / size + 1) * size;
    while (num_come.load() < all) std::this_thread::yield();
  }
};

// A communicator whose tensors on the device are exchanged by one way.
struct Wired {
  Wired(int rank, int size, test::Board* board, bool ipc) {
    CudaOptions options;
    options.ipc = ipc;
    state = MakeCudaState(0, options);
    auto waits = std::make_unique<WaitControl>();
    waits->timeouts.silence_seconds = kLimitSeconds / 2;
    auto transport = Connect(rank, size, board, *waits);
    communicator =
        std::make_unique<Communicator>(std::move(waits), std::move(transport),
                                       Topology{rank, size, 1, {{0}}, WidestInstructionSet()});
  }
  std::shared_ptr<DeviceState> state;
  std::unique_ptr<Communicator> communicator;
};

// Tensors of a list, one behind the other, on the device and in pinned memory.
class Tensors {
 public:
  explicit Tensors(const List& list) : list_(list) {
    for (int64_t count : list.counts) num_bytes_ += Room(count);
    input_ = static_cast<char*>(input_memory_.Get(num_bytes_));
    output_ = static_cast<char*>(output_memory_.Get(num_bytes_));
    pinned_ = static_cast<char*>(pinned_memory_.Get(num_bytes_));
    std::minstd_rand random(1);
    float* const values = reinterpret_cast<float*>(pinned_);
    for (int64_t i = 0; i < num_bytes_ / 4; ++i) values[i] = random() * 1e-9f - 1;
    CheckCuda(cudaMemcpy(input_, pinned_, num_bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  void Copy(char* to, const char* from) {
    int64_t offset = 0;
    for (int64_t count : list_.counts) {
      CheckCuda(
          cudaMemcpyAsync(to + offset, from + offset, count * 4, cudaMemcpyDefault, stream_.get()),
          "cudaMemcpyAsync");
      offset += Room(count);
    }
    CheckCuda(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  }
  void CopyOnDevice() { Copy(output_, input_); }

  void OnDevice(Wired* wired) {
    AllreduceTensors tensors = Named(input_, output_);
    tensors.device = wired->state->Tensors(stream_.get());
    test::Pending pending;
    test::EnqueueAllreduce(*wired->communicator, std::move(tensors), pending.done());
    CHECK_EQ(test::Describe(pending.Await()), "");
  }

  void OnHost(Wired* wired) {
    Copy(pinned_, input_);
    AllreduceAndWait(*wired->communicator, Named(pinned_, pinned_));
    Copy(output_, pinned_);
  }

 private:
  // As the allocators of frameworks: 256 bytes.
  static int64_t Room(int64_t count) { return (count * 4 + 255) / 256 * 256; }

  AllreduceTensors Named(char* inputs, char* outputs) const {
    AllreduceTensors tensors{list_.name, "adasum", DType::kFloat32, {}, {{}}, {}};
    int64_t offset = 0;
    for (int64_t count : list_.counts) {
      tensors.shapes.push_back({count});
      tensors.inputs[0].push_back(inputs + offset);
      tensors.outputs.push_back(outputs + offset);
      offset += Room(count);
    }
    return tensors;
  }

  const List& list_;
  int64_t num_bytes_ = 0;
  Scratch input_memory_{TheDeviceMemory()}, output_memory_{TheDeviceMemory()};
  Scratch pinned_memory_{ThePinnedMemory()};
  char* input_ = nullptr;
  char* output_ = nullptr;
  char* pinned_ = nullptr;
  Stream stream_;
};

class Rank {
 public:
  Rank(int rank, int size, test::Board* first, test::Board* second, Meeting* meeting)
      : rank_(rank),
        size_(size),
        meeting_(*meeting),
        ipc_(rank, size, first, true),
        staged_(rank, size, second, false) {}

  void Time(const List& list) {
    Tensors tensors(list);
    std::map<std::string, std::vector<double>> times;
    for (int repetition = -2; repetition < kRepetitions; ++repetition) {
      for (const std::string way : kWays) {
        const double ms = SlowestMilliseconds([&] {
          if (way == "copy") tensors.CopyOnDevice();
          if (way == "ipc") tensors.OnDevice(&ipc_);
          if (way == "staged") tensors.OnDevice(&staged_);
          if (way == "host") tensors.OnHost(&ipc_);
        });
        if (repetition >= 0) times[way].push_back(ms);
      }
    }
    if (rank_ != 0) return;
    std::printf("%-12s", list.name.c_str());
    for (const char* way : kWays) {
      std::vector<double>& all = times[way];
      std::nth_element(all.begin(), all.begin() + all.size() / 2, all.end());
      std::printf(" %9.3f", all[all.size() / 2]);
    }
    std::puts("");
    std::fflush(stdout);
  }

 private:
  template <typename Call>
  double SlowestMilliseconds(Call call) {
    using Clock = std::chrono::steady_clock;
    meeting_.slowest_nanoseconds = 0;
    meeting_.Meet(size_);
    const auto begin = Clock::now();
    call();
    const int64_t mine = std::chrono::nanoseconds(Clock::now() - begin).count();
    int64_t slowest = meeting_.slowest_nanoseconds;
    while (slowest < mine && !meeting_.slowest_nanoseconds.compare_exchange_weak(slowest, mine)) {
    }
    meeting_.Meet(size_);
    const double milliseconds = meeting_.slowest_nanoseconds * 1e-6;
    meeting_.Meet(size_);
    return milliseconds;
  }

  const int rank_;
  const int size_;
  Meeting& meeting_;
  Wired ipc_;
  Wired staged_;
};

int Main(int size) {
  const std::vector<List> lists = ReadLists();
  // Nothing of CUDA before the processes are forked.
  const int64_t num_bytes = sizeof(Meeting) + sizeof(test::Board);
  void* shared =
      mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 1;
  auto* meeting = new (shared) Meeting{};
  auto* second = new (static_cast<char*>(shared) + sizeof(Meeting)) test::Board{};
  std::printf("%d ranks on one GPU, ms\n%-12s", size, "list");
  for (const char* way : kWays) std::printf(" %9s", way);
  std::puts("");
  std::fflush(stdout);
  test::ForEachProcess(size, kLimitSeconds, [&](int rank, test::Board* first) {
    Rank timed(rank, size, first, second, meeting);
    for (const List& list : lists) timed.Time(list);
  });
  return test::NumFailures() > 0 ? 1 : 0;
}

}  // namespace
}  // namespace adasum

int main(int argc, char** argv) { return adasum::Main(argc > 1 ? std::atoi(argv[1]) : 2); }
