#include "tests/cc/cuda_emulation.h"

#include <ucontext.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

EmulatedIndex threadIdx;
EmulatedIndex blockIdx;
EmulatedIndex gridDim;

namespace adasum {
namespace test {
namespace {

constexpr int kStackBytes = 1 << 16;
constexpr int kWarp = 32;

enum class State { kReady, kAtBlockBarrier, kAtWarpBarrier, kEnded };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[kStackBytes]};
  State state = State::kReady;
  int num_shuffles = 0;
};

// One block at a time, in one thread.
struct Block {
  ucontext_t scheduler;
  std::vector<Fiber> fibers;
  // What each thread gave to its newest shuffles, in two places in turn: a thread can be one
  // shuffle ahead of a neighbour, never two.
  std::vector<double> given[2];
  const std::function<void()>* body;
};
Block block;

void YieldAs(State state) {
  Fiber& fiber = block.fibers[threadIdx.x];
  fiber.state = state;
  swapcontext(&fiber.context, &block.scheduler);
}

void RunFiber() {
  (*block.body)();
  YieldAs(State::kEnded);
}

void Start(int thread) {
  Fiber& fiber = block.fibers[thread];
  fiber.state = State::kReady;
  fiber.num_shuffles = 0;
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, &RunFiber, 0);
}

// Makes threads [begin, end) ready if all of them stand at `barrier`.
bool Release(int begin, int end, State barrier) {
  for (int thread = begin; thread < end; ++thread) {
    if (block.fibers[thread].state != barrier) return false;
  }
  for (int thread = begin; thread < end; ++thread) block.fibers[thread].state = State::kReady;
  return true;
}

void RunBlock() {
  const int num_threads = static_cast<int>(block.fibers.size());
  for (int thread = 0; thread < num_threads; ++thread) Start(thread);
  for (;;) {
    for (int thread = 0; thread < num_threads; ++thread) {
      if (block.fibers[thread].state != State::kReady) continue;
      threadIdx.x = thread;
      swapcontext(&block.scheduler, &block.fibers[thread].context);
    }
    bool goes_on = Release(0, num_threads, State::kAtBlockBarrier);
    for (int warp = 0; warp < num_threads; warp += kWarp) {
      goes_on |= Release(warp, warp + kWarp, State::kAtWarpBarrier);
    }
    if (goes_on) continue;
    if (Release(0, num_threads, State::kEnded)) return;
    throw std::logic_error("Threads of a block wait for different barriers.");
  }
}

}  // namespace

double ShuffledFrom(double value, int lane) {
  const int thread = threadIdx.x;
  std::vector<double>& given = block.given[block.fibers[thread].num_shuffles++ % 2];
  given[thread] = value;
  YieldAs(State::kAtWarpBarrier);
  return given[thread / kWarp * kWarp + lane];
}

void RunGrid(int num_blocks, int num_threads, unsigned seed, const std::function<void()>& body) {
  block.fibers.resize(num_threads);
  block.given[0].resize(num_threads);
  block.given[1].resize(num_threads);
  block.body = &body;
  gridDim.x = num_blocks;
  std::vector<int> order(num_blocks);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  for (int index : order) {
    blockIdx.x = index;
    RunBlock();
  }
}

}  // namespace test
}  // namespace adasum

void __syncthreads() { adasum::test::YieldAs(adasum::test::State::kAtBlockBarrier); }
