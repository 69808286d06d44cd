// A rank whose GPU has too little memory for an allreduce: all ranks hear of it before anything is
// sent, and go on together.

#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>

#include "tests/cc/check.h"
#include "tests/cc/lane_wire.h"
#include "tests/cc/processes.h"
#include "tests/cuda_stand_in/devices.h"
#include "tests/cuda_stand_in/launches.h"
#include "tests/gpu/requests.cu.h"

namespace adasum {
namespace {

using cuda_stand_in::kAllBytes;
using cuda_stand_in::Kernel;
using cuda_stand_in::NumMallocs;
using cuda_stand_in::SetFreeBytes;
using test::Board;
using test::Contains;
using test::Ending;
using test::GpuRequest;
using test::GpuSide;
using test::Lanes;
using test::LaneWire;
using test::LeafValues;
using test::Scope;

constexpr int kLimitSeconds = 60;
constexpr double kSilenceSeconds = 10;

struct World {
  int num_processes;
  int num_replicas;  // of each process
};
constexpr World kWorlds[] = {{2, 1}, {3, 1}, {2, 2}, {3, 2}};

const GpuRequest kSmall{DType::kFloat32, "adasum", false, {40003}};
const GpuRequest kLarge{DType::kFloat32, "adasum", false, {150001, 0, 5}};

// One process with its communicator, on device 0. All processes draw all leaves.
class Process {
 public:
  Process(World world, const Lanes* lanes, int rank, Board* board, const CudaOptions& options)
      : world_(world), rank_(rank), board_(board), state_(MakeCudaState(0, options)) {
    auto waits = std::make_unique<WaitControl>();
    waits->timeouts.silence_seconds = kSilenceSeconds;
    waits->hot_pauses = 16;
    auto wire = std::make_unique<LaneWire>(lanes, rank, waits.get());
    communicator_ = std::make_unique<Communicator>(std::move(waits), std::move(wire),
                                                   Topology{rank, world.num_processes});
  }

  // With so many bytes free on the device, besides the tensors of the request. Results are checked
  // where there are any. All ranks end alike.
  Ending Run(const GpuRequest& request, int64_t free_bytes = kAllBytes) {
    return Run(request, free_bytes,
               Draw(request, world_.num_processes * world_.num_replicas, &random_));
  }

  // The same of zeros, for what is to fail.
  Ending RunZeros(const GpuRequest& request, int64_t free_bytes) {
    LeafValues leaves(world_.num_processes * world_.num_replicas);
    for (auto& leaf : leaves) {
      for (int64_t count : request.counts) leaf.emplace_back(count);
    }
    return Run(request, free_bytes, leaves);
  }

 private:
  Ending Run(const GpuRequest& request, int64_t free_bytes, const LeafValues& leaves) {
    const auto first = leaves.begin() + rank_ * world_.num_replicas;
    SetFreeBytes(kAllBytes);
    GpuSide side(request, LeafValues(first, first + world_.num_replicas));
    SetFreeBytes(free_bytes);
    side.Start(*communicator_, *state_);
    const Ending ending = side.Await();
    NoteEqual(rank_, board_, ending ? static_cast<int>(ending->code()) : -1);
    if (ending) return ending;
    side.Check(leaves);
    return ending;
  }

  const World world_;
  const int rank_;
  Board* board_;
  std::shared_ptr<DeviceState> state_;
  std::unique_ptr<Communicator> communicator_;
  std::mt19937 random_{17};
};

// Leaves of other processes by CUDA IPC, and staged.
void ForEachWorld(const std::function<void(World, Process&, int rank)>& body) {
  for (bool ipc : {true, false}) {
    for (const World& world : kWorlds) {
      Scope scope(std::to_string(world.num_processes) + " processes of " +
                  std::to_string(world.num_replicas) + " replicas" + (ipc ? ", IPC" : ", staged"));
      const Lanes lanes(world.num_processes, 1 + world.num_replicas * world.num_replicas);
      test::ForEachProcess(world.num_processes, kLimitSeconds, [&](int rank, Board* board) {
        CudaOptions options;
        options.ipc = ipc;
        Process process(world, &lanes, rank, board, options);
        body(world, process, rank);
      });
    }
  }
}

TEST(ARankLacksMemory) {
  ForEachWorld([](World world, Process& process, int rank) {
    for (int poor = 0; poor < world.num_processes; ++poor) {
      CHECK_EQ(test::Describe(process.Run(kSmall)), "");
      // More than what the others have got before.
      const GpuRequest larger{DType::kFloat32, "adasum", false, {int64_t{600011} << poor, 0, 5}};
      const Ending lacking = process.RunZeros(larger, rank == poor ? 1 << 20 : kAllBytes);
      const std::string text = test::Describe(lacking);
      Scope scope(text);
      CHECK_TRUE(test::Is(lacking, ErrorCode::kResourceExhausted));
      CHECK_TRUE(Contains(text, "rank " + std::to_string(poor)));
      CHECK_TRUE(Contains(text, "TF_FORCE_GPU_ALLOW_GROWTH"));
      // The poor one still has what the small one needs.
      CHECK_EQ(test::Describe(process.Run(kSmall, rank == poor ? 3 << 20 : kAllBytes)), "");
    }
    CHECK_EQ(test::Describe(process.Run(kLarge)), "");
  });
}

// Whatever it is that can't be had: either all ranks lack it, or none.
TEST(ARankHasALittleMore) {
  ForEachWorld([](World world, Process& process, int rank) {
    const int poor = world.num_processes - 1;
    CHECK_EQ(test::Describe(process.Run(kSmall)), "");
    for (int64_t free_bytes = 0; free_bytes <= int64_t{4} << 20; free_bytes += 350 << 10) {
      const Ending ending = process.Run(kLarge, rank == poor ? free_bytes : kAllBytes);
      if (free_bytes == 0) CHECK_TRUE(ending.has_value());
      CHECK_TRUE(!ending || test::Is(ending, ErrorCode::kResourceExhausted));
    }
    CHECK_EQ(test::Describe(process.Run(kLarge)), "");
  });
}

// All that a request takes is there before its first kernel.
TEST(NothingIsAllocatedOnTheWay) {
  ForEachWorld([](World, Process& process, int) {
    std::atomic<int64_t> at_first_launch{-1};
    cuda_stand_in::SetWatch({[&](Kernel) {
                               int64_t none = -1;
                               at_first_launch.compare_exchange_strong(none, NumMallocs());
                             },
                             [](Kernel) {}, [](Kernel) {}});
    const GpuRequest many{DType::kBFloat16, "adasum", true, std::vector<int64_t>(700, 37)};
    for (const GpuRequest& request :
         {kSmall, many, kLarge, kSmall, GpuRequest{DType::kFloat64, "mean", true, {100003}}}) {
      Scope scope(Describe(request));
      at_first_launch = -1;
      CHECK_EQ(test::Describe(process.Run(request)), "");
      // A folded leaf launches none for a single tensor.
      if (at_first_launch >= 0) CHECK_EQ(NumMallocs(), at_first_launch.load());
    }
    cuda_stand_in::SetWatch({[](Kernel) {}, [](Kernel) {}, [](Kernel) {}});
  });
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
