// What the launchers of cc/arithmetic promise, kept by the arithmetic for the CPU. The kernels
// themselves are run by tests/cc/cuda_*_test; here it is when they run and on which memory.

#include "tests/cuda_stand_in/launches.h"

#include <cstring>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/cuda/kernels/arithmetic_cuda.h"
#include "tests/cuda_stand_in/devices.h"
#include "tests/cuda_stand_in/streams.h"

namespace cuda_stand_in {
namespace {

Watch& TheWatch() {
  static auto* watch = new Watch{[](Kernel) {}, [](Kernel) {}, [](Kernel) {}};
  return *watch;
}

}  // namespace

void SetWatch(Watch watch) { TheWatch() = std::move(watch); }

}  // namespace cuda_stand_in

namespace adasum {
namespace {

using cuda_stand_in::Kernel;
using cuda_stand_in::OnDevice;

template <typename T>
T* ArrayOn(int device, const T* array, int64_t count) {
  return reinterpret_cast<T*>(OnDevice(array, count * static_cast<int64_t>(sizeof(T)), device));
}

// What a kernel touches beside the left operands.
enum Touches { kRight = 1, kOut = 2, kCopy = 4 };

// The list as it is on the device when the kernel begins; segments are places in the list.
std::vector<Piece> PiecesOn(int device, const CudaLaunch& launch, int touches) {
  std::vector<Piece> pieces;
  const CudaPiece* list = ArrayOn(device, launch.work.pieces, launch.work.num_pieces);
  ArrayOn(device, launch.work.chunks, launch.work.num_chunks);
  for (int64_t i = 0; i < launch.work.num_pieces; ++i) {
    const int64_t num_bytes = list[i].num_elements * ElementBytes(launch.dtype);
    if (num_bytes == 0) continue;
    auto place = [&](const void* bytes) { return OnDevice(bytes, num_bytes, device); };
    pieces.push_back({i, place(list[i].left), touches & kRight ? place(list[i].right) : nullptr,
                      touches & kOut ? place(list[i].out) : nullptr,
                      touches & kCopy && list[i].copy != nullptr ? place(list[i].copy) : nullptr,
                      list[i].num_elements});
  }
  return pieces;
}

template <typename Apply>
void Launch(const CudaLaunch& launch, int touches, Apply apply, Kernel kernel = Kernel::kOther) {
  cuda_stand_in::TheWatch().launched(kernel);
  cuda_stand_in::Enqueue(launch.stream, [=](int device) {
    cuda_stand_in::TheWatch().begins(kernel);
    CpuArithmetic arithmetic;
    apply(arithmetic, PiecesOn(device, launch, touches), device);
    arithmetic.Finish();
    cuda_stand_in::TheWatch().ended(kernel);
  });
}

void CopyEach(DType dtype, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    std::memmove(piece.out, piece.left, piece.num_elements * ElementBytes(dtype));
  }
}

}  // namespace

void LaunchMoments(const CudaLaunch& launch, const CudaMomentsMemory& memory) {
  Launch(
      launch, kRight,
      [=](CpuArithmetic& cpu, const std::vector<Piece>& pieces, int device) {
        ArrayOn(device, memory.partials, launch.work.num_chunks);
        const unsigned* arrivals = ArrayOn(device, memory.arrivals, launch.work.num_pieces);
        Moments* moments = ArrayOn(device, memory.moments, launch.work.num_pieces);
        for (int64_t i = 0; i < launch.work.num_pieces; ++i) {
          if (arrivals[i] != 0) cuda_stand_in::Die("a counter of arrivals that is not zero");
          moments[i] = {};
        }
        cpu.AddMoments(launch.dtype, pieces, moments);
      },
      Kernel::kMoments);
}

void LaunchCombine(const CudaLaunch& launch, const Coefficients* coefficients) {
  Launch(
      launch, kRight | kOut | kCopy,
      [=](CpuArithmetic& cpu, const std::vector<Piece>& pieces, int device) {
        cpu.Combine(launch.dtype, pieces, ArrayOn(device, coefficients, launch.work.num_pieces));
      },
      Kernel::kCombine);
}

void LaunchAdd(const CudaLaunch& launch) {
  Launch(launch, kRight | kOut | kCopy,
         [=](CpuArithmetic& cpu, const std::vector<Piece>& pieces, int) {
           cpu.Add(launch.dtype, pieces);
         });
}

void LaunchLogicalAnd(const CudaLaunch& launch) {
  Launch(
      launch, kRight | kOut | kCopy,
      [=](CpuArithmetic& cpu, const std::vector<Piece>& pieces, int) { cpu.LogicalAnd(pieces); });
}

void LaunchDivide(const CudaLaunch& launch, int64_t divisor) {
  Launch(launch, kOut | kCopy, [=](CpuArithmetic& cpu, const std::vector<Piece>& pieces, int) {
    CopyEach(launch.dtype, pieces);
    cpu.Divide(launch.dtype, pieces, divisor);
  });
}

void LaunchCopy(const CudaLaunch& launch) {
  Launch(launch, kOut, [=](CpuArithmetic&, const std::vector<Piece>& pieces, int) {
    CopyEach(launch.dtype, pieces);
  });
}

}  // namespace adasum
