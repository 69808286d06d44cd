// Several cores give what one gives, bit by bit, whoever comes to help and when.

#include "cc/arithmetic/parallel_arithmetic.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <new>
#include <random>
#include <thread>
#include <utility>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/arithmetic/helper_threads.h"
#include "cc/core/error.h"
#include "tests/cc/check.h"
#include "tests/cc/elements.h"

namespace adasum {
namespace {

using test::Elements;
using test::kDTypes;
using test::kFloats;
using test::Scope;

// Threads that live until the pool ends, each for one function.
class Threads {
 public:
  ~Threads() {
    for (std::thread& thread : threads_) thread.join();
  }
  LendThread Lend() {
    return [this](std::function<void()> work) { threads_.emplace_back(std::move(work)); };
  }

 private:
  std::vector<std::thread> threads_;
};

// Functions that run only when all is over.
class Latecomers {
 public:
  ~Latecomers() {
    for (const auto& work : works_) work();
  }
  LendThread Lend() {
    return [this](std::function<void()> work) { works_.push_back(std::move(work)); };
  }

 private:
  std::vector<std::function<void()>> works_;
};

constexpr int64_t kCounts[] = {0, 1, 70000, 3, 200001};

struct Vectors {
  explicit Vectors(DType dtype) {
    std::mt19937 random(static_cast<int>(dtype));
    for (int64_t count : kCounts) {
      std::vector<double> values[2];
      for (auto& side : values) {
        for (int64_t i = 0; i < count; ++i) {
          int drawn = static_cast<int>(random() % 200) - 100;
          side.push_back(dtype == DType::kBool ? drawn > 0 : drawn);
        }
      }
      left.emplace_back(dtype, values[0]);
      right.emplace_back(dtype, values[1]);
      out.emplace_back(dtype, count);
      copy.emplace_back(dtype, count);
    }
  }
  std::vector<Piece> Pieces() {
    std::vector<Piece> pieces;
    for (size_t i = 0; i < left.size(); ++i) {
      pieces.push_back({static_cast<int64_t>(i), left[i].bytes(), right[i].bytes(), out[i].bytes(),
                        copy[i].bytes(), left[i].size()});
    }
    return pieces;
  }
  std::vector<Elements> left, right, out, copy;
};

void CheckSame(const Vectors& got, const Vectors& expected) {
  for (size_t i = 0; i < got.out.size(); ++i) {
    int64_t num_bytes = expected.out[i].num_bytes();
    CHECK_EQ(std::memcmp(got.out[i].bytes(), expected.out[i].bytes(), num_bytes), 0);
    CHECK_EQ(std::memcmp(got.copy[i].bytes(), expected.out[i].bytes(), num_bytes), 0);
    CHECK_TRUE(got.out[i].SurroundingsAreIntact() && got.copy[i].SurroundingsAreIntact());
  }
}

// Calls check(arithmetic) with every kind of help.
template <typename Check>
void WithEveryHelp(Arithmetic* inner, Check check) {
  for (int width : {1, 2, 5}) {
    Scope scope("width " + std::to_string(width));
    Threads threads;
    Latecomers latecomers;
    HelperThreads helpers;
    ParallelArithmetic alone(inner, width, nullptr), helped(inner, width, threads.Lend()),
        late(inner, width, latecomers.Lend()), own(inner, width, helpers.Lend(width - 1));
    for (ParallelArithmetic* arithmetic : {&alone, &helped, &late, &own}) check(*arithmetic);
  }
}

TEST(ResultsAreThoseOfOneCore) {
  CpuArithmetic cpu(KernelsOf(WidestInstructionSet()), true);
  const std::vector<Coefficients> coefficients(std::size(kCounts), {0.5, 0.25});
  for (DType dtype : kDTypes) {
    Scope scope(DTypeName(dtype));
    Vectors sum(dtype), combined(dtype);
    cpu.Add(dtype, sum.Pieces());
    if (IsFloating(dtype)) cpu.Combine(dtype, combined.Pieces(), coefficients.data());
    WithEveryHelp(&cpu, [&](Arithmetic& arithmetic) {
      Vectors added(dtype), mixed(dtype);
      arithmetic.Add(dtype, added.Pieces());
      CheckSame(added, sum);
      if (!IsFloating(dtype)) return;
      arithmetic.Combine(dtype, mixed.Pieces(), coefficients.data());
      CheckSame(mixed, combined);
    });
  }
}

TEST(MomentsAreTheSameWhoeverHelps) {
  CpuArithmetic cpu;
  for (DType dtype : kFloats) {
    Scope scope(DTypeName(dtype));
    Vectors vectors(dtype);
    std::vector<Moments> exact(std::size(kCounts)), first(std::size(kCounts));
    cpu.AddMoments(dtype, vectors.Pieces(), exact.data());  // of whole numbers: exact
    ParallelArithmetic(&cpu, 2, nullptr).AddMoments(dtype, vectors.Pieces(), first.data());
    WithEveryHelp(&cpu, [&](Arithmetic& arithmetic) {
      std::vector<Moments> moments(std::size(kCounts));
      arithmetic.AddMoments(dtype, vectors.Pieces(), moments.data());
      for (size_t i = 0; i < moments.size(); ++i) {
        CHECK_EQ(moments[i].dot, exact[i].dot);
        CHECK_EQ(moments[i].left_norm2, exact[i].left_norm2);
        CHECK_EQ(moments[i].right_norm2, exact[i].right_norm2);
      }
      CHECK_EQ(std::memcmp(moments.data(), first.data(), moments.size() * sizeof(Moments)), 0);
    });
  }
}

// As TensorFlow's threads, which take what is subnormal for zero.
TEST(HelpersKeepSubnormalNumbers) {
#if defined(__x86_64__)
  Threads threads;
  LendThread lend = [inner = threads.Lend()](std::function<void()> work) {
    inner([work] {
      __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
      work();
    });
  };
  Elements tiny(DType::kFloat32, std::vector<double>(400000, std::ldexp(3.0, -140))),
      sum(DType::kFloat32, tiny.size());
  CpuArithmetic cpu;
  ParallelArithmetic(&cpu, 4, lend)
      .Add(DType::kFloat32, {{0, tiny.bytes(), tiny.bytes(), sum.bytes(), nullptr, tiny.size()}});
  for (int64_t i = 0; i < sum.size(); ++i) CHECK_EQ(sum[i], std::ldexp(6.0, -140));
#endif
}

// Coefficients beyond float32, whose products are within it.
TEST(VectorsOfUnlikeNorms) {
  CpuArithmetic cpu;
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Elements small(dtype, std::vector<double>(5000, std::ldexp(1.0, -130))),
        large(dtype, std::vector<double>(5000, 8.0)), out(dtype, 5000);
    const double steep = -std::ldexp(1.0, 131);  // 2^131 * 2^-130 = 2
    const Coefficients left_small{steep, 0.5}, right_small{0.5, steep};
    cpu.Combine(dtype, {{0, small.bytes(), large.bytes(), out.bytes(), nullptr, 5000}},
                &left_small);
    for (int64_t i = 0; i < out.size(); ++i) CHECK_EQ(out[i], 2.0);
    cpu.Combine(dtype, {{0, large.bytes(), small.bytes(), out.bytes(), nullptr, 5000}},
                &right_small);
    for (int64_t i = 0; i < out.size(); ++i) CHECK_EQ(out[i], 2.0);
  }
}

TEST(CopiesAreWhole) {
  CpuArithmetic cpu(KernelsOf(WidestInstructionSet()), true);
  Vectors vectors(DType::kFloat32);
  const Elements& from = vectors.left.back();
  WithEveryHelp(&cpu, [&](Arithmetic& arithmetic) {
    Elements copied(DType::kFloat32, from.size()), delivered(DType::kFloat32, from.size(), 8),
        past(DType::kFloat32, from.size(), 8);
    arithmetic.Copy(copied.bytes(), from.bytes(), from.num_bytes());
    arithmetic.Deliver(delivered.bytes(), from.bytes(), from.num_bytes());
    arithmetic.CopyPiecesPastCaches(
        DType::kFloat32, {{0, from.bytes(), nullptr, past.bytes(), nullptr, from.size()}});
    CHECK_EQ(std::memcmp(past.bytes(), from.bytes(), from.num_bytes()), 0);
    CHECK_TRUE(past.SurroundingsAreIntact());
    CHECK_EQ(std::memcmp(copied.bytes(), from.bytes(), from.num_bytes()), 0);
    CHECK_EQ(std::memcmp(delivered.bytes(), from.bytes(), from.num_bytes()), 0);
    CHECK_TRUE(copied.SurroundingsAreIntact() && delivered.SurroundingsAreIntact());
  });
}

TEST(EveryTaskOnce) {
  Threads threads;
  std::vector<std::atomic<int>> counts(1000);
  ForEachTask(1000, 3, threads.Lend(), [&](int64_t i) { counts[i].fetch_add(1); });
  for (const auto& count : counts) CHECK_EQ(count.load(), 1);
}

TEST(HelpersThatNoMemoryIsLeftForAreDoneWithout) {
  Threads threads;
  const LendThread lend = threads.Lend();
  int num_asked = 0;
  std::vector<std::atomic<int>> counts(1000);
  ForEachTask(
      1000, 3,
      [&](std::function<void()> work) {
        if (++num_asked > 1) throw std::bad_alloc();
        lend(std::move(work));
      },
      [&](int64_t i) { counts[i].fetch_add(1); });
  for (const auto& count : counts) CHECK_EQ(count.load(), 1);
  CHECK_EQ(num_asked, 2);
}

TEST(AFailureReachesTheCaller) {
  Threads threads;
  try {
    ForEachTask(100, 3, threads.Lend(), [&](int64_t i) {
      if (i == 50) throw Error(ErrorCode::kInternal, "task 50");
    });
    test::Fail(__FILE__, __LINE__, "expected an error");
  } catch (const Error& error) {
    CHECK_EQ(std::string(error.what()), "task 50");
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
