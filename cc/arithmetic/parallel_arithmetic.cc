#include "cc/arithmetic/parallel_arithmetic.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "cc/arithmetic/slices.h"
#include "cc/core/bytes.h"
#include "cc/core/default_floats.h"

namespace adasum {
namespace {

// Worth handing to another core: some ten microseconds.
constexpr int64_t kSliceBytes = int64_t{64} << 10;

// Shared with helpers, which may come when all is over and the caller gone.
struct Tasks {
  explicit Tasks(int64_t count, const std::function<void(int64_t)>* task)
      : count(count), task(task) {}

  // Takes tasks until none is left. `task` is only looked at by who has one to do, for which the
  // caller waits.
  void Work() {
    for (int64_t i; (i = next.fetch_add(1)) < count;) {
      try {
        (*task)(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        if (!failure) failure = std::current_exception();
      }
      num_done.fetch_add(1);
    }
  }

  const int64_t count;
  const std::function<void(int64_t)>* const task;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> num_done{0};
  std::mutex mutex;
  std::exception_ptr failure;
};

template <typename Part>
std::vector<Part> SlicesOf(const std::vector<Part>& parts, int64_t element_bytes) {
  const int64_t slice = kSliceBytes / element_bytes;
  std::vector<Part> slices;
  for (const Part& part : parts) {
    ForEachTileOf(part, slice, [&](int64_t begin, int64_t count) {
      slices.push_back(Slice(part, begin, count, element_bytes));
    });
  }
  return slices;
}

// Runs of slices, each worth a task.
template <typename Part>
std::vector<std::vector<Part>> GroupsOf(const std::vector<Part>& parts, int64_t element_bytes) {
  std::vector<std::vector<Part>> groups;
  int64_t room = 0;
  for (const Part& slice : SlicesOf(parts, element_bytes)) {
    int64_t num_bytes = slice.num_elements * element_bytes;
    if (groups.empty() || num_bytes > room) {
      groups.emplace_back();
      room = kSliceBytes;
    }
    groups.back().push_back(slice);
    room -= num_bytes;
  }
  return groups;
}

}  // namespace

void ForEachTask(int64_t num_tasks, int num_helpers, const LendThread& lend,
                 const std::function<void(int64_t)>& task) {
  if (num_tasks <= 1 || num_helpers == 0 || !lend) {
    for (int64_t i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  auto tasks = std::make_shared<Tasks>(num_tasks, &task);
  for (int64_t i = 0; i < std::min<int64_t>(num_helpers, num_tasks - 1); ++i) {
    try {
      lend([tasks] {
        DefaultFloats floats;
        tasks->Work();
      });
    } catch (const std::bad_alloc&) {
      break;  // those that were lent may have begun: the caller stays, and does what they don't
    }
  }
  tasks->Work();
  // Those that others have begun: a few microseconds of arithmetic each.
  while (tasks->num_done.load() < num_tasks) std::this_thread::yield();
  // Moved out: a helper that lets go of the tasks later must not be the one that ends the
  // exception.
  if (tasks->failure) std::rethrow_exception(std::move(tasks->failure));
}

void ParallelArithmetic::Run(int64_t num_tasks, const std::function<void(int64_t)>& task) {
  ForEachTask(num_tasks, width_ - 1, lend_, [&](int64_t i) {
    task(i);
    inner_->Finish();  // a helper's stores, before the caller says that they are there
  });
}

void ParallelArithmetic::RunTasks(const char*, int64_t num_bytes, int64_t num_tasks,
                                  const std::function<void(int64_t, Arithmetic&)>& task) {
  const int64_t most = std::max<int64_t>(num_bytes / kSliceBytes - 1, 0);
  const int num_helpers = static_cast<int>(std::min<int64_t>(width_ - 1, most));
  ForEachTask(num_tasks, num_helpers, lend_, [&](int64_t i) {
    task(i, *inner_);
    inner_->Finish();
  });
}

template <typename Part>
void ParallelArithmetic::ForEachGroup(DType dtype, const std::vector<Part>& parts,
                                      const std::function<void(const std::vector<Part>&)>& work) {
  const std::vector<std::vector<Part>> groups = GroupsOf(parts, ElementBytes(dtype));
  Run(static_cast<int64_t>(groups.size()), [&](int64_t i) { work(groups[i]); });
}

template <typename Part, typename Work>
void ParallelArithmetic::SumSlices(DType dtype, const std::vector<Part>& parts, int64_t num_sums,
                                   double* totals, Work work) {
  // Each slice sums for itself; the sums are added in the order of the slices, on this thread.
  const std::vector<std::vector<Part>> groups = GroupsOf(parts, ElementBytes(dtype));
  std::vector<std::vector<double>> sums(groups.size());
  Run(static_cast<int64_t>(groups.size()), [&](int64_t i) {
    std::vector<Part> slices = groups[i];
    for (size_t k = 0; k < slices.size(); ++k) slices[k].segment = static_cast<int64_t>(k);
    sums[i].resize(slices.size() * num_sums);
    work(slices, sums[i].data());
  });
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t k = 0; k < groups[i].size(); ++k) {
      double* total = totals + groups[i][k].segment * num_sums;
      for (int64_t n = 0; n < num_sums; ++n) total[n] += sums[i][k * num_sums + n];
    }
  }
}

void ParallelArithmetic::AddMoments(DType dtype, const std::vector<Piece>& pieces,
                                    Moments* moments) {
  static_assert(sizeof(Moments) == 3 * sizeof(double), "three sums");
  SumSlices(dtype, pieces, 3, reinterpret_cast<double*>(moments),
            [&](const std::vector<Piece>& slices, double* sums) {
              inner_->AddMoments(dtype, slices, reinterpret_cast<Moments*>(sums));
            });
}

void ParallelArithmetic::AddGrams(DType dtype, int n, const std::vector<Stack>& stacks,
                                  double* grams) {
  SumSlices(dtype, stacks, GramSize(n), grams, [&](const std::vector<Stack>& slices, double* sums) {
    inner_->AddGrams(dtype, n, slices, sums);
  });
}

void ParallelArithmetic::Combine(DType dtype, const std::vector<Piece>& pieces,
                                 const Coefficients* coefficients) {
  ForEachGroup<Piece>(dtype, pieces, [&](const std::vector<Piece>& slices) {
    inner_->Combine(dtype, slices, coefficients);
  });
}

void ParallelArithmetic::CombineStacks(DType dtype, int n, const std::vector<Stack>& stacks,
                                       const double* weights) {
  ForEachGroup<Stack>(dtype, stacks, [&](const std::vector<Stack>& slices) {
    inner_->CombineStacks(dtype, n, slices, weights);
  });
}

void ParallelArithmetic::Add(DType dtype, const std::vector<Piece>& pieces) {
  ForEachGroup<Piece>(dtype, pieces,
                      [&](const std::vector<Piece>& slices) { inner_->Add(dtype, slices); });
}

void ParallelArithmetic::Min(DType dtype, const std::vector<Piece>& pieces) {
  ForEachGroup<Piece>(dtype, pieces,
                      [&](const std::vector<Piece>& slices) { inner_->Min(dtype, slices); });
}

void ParallelArithmetic::Max(DType dtype, const std::vector<Piece>& pieces) {
  ForEachGroup<Piece>(dtype, pieces,
                      [&](const std::vector<Piece>& slices) { inner_->Max(dtype, slices); });
}

void ParallelArithmetic::Multiply(DType dtype, const std::vector<Piece>& pieces) {
  ForEachGroup<Piece>(dtype, pieces,
                      [&](const std::vector<Piece>& slices) { inner_->Multiply(dtype, slices); });
}

void ParallelArithmetic::LogicalAnd(const std::vector<Piece>& pieces) {
  ForEachGroup<Piece>(DType::kBool, pieces,
                      [&](const std::vector<Piece>& slices) { inner_->LogicalAnd(slices); });
}

void ParallelArithmetic::Divide(DType dtype, const std::vector<Piece>& pieces, int64_t divisor) {
  ForEachGroup<Piece>(dtype, pieces, [&](const std::vector<Piece>& slices) {
    inner_->Divide(dtype, slices, divisor);
  });
}

void ParallelArithmetic::CopyPiecesPastCaches(DType dtype, const std::vector<Piece>& pieces) {
  ForEachGroup<Piece>(dtype, pieces, [&](const std::vector<Piece>& slices) {
    inner_->CopyPiecesPastCaches(dtype, slices);
  });
}

void ParallelArithmetic::ForEachPart(int64_t num_bytes,
                                     const std::function<void(int64_t, int64_t)>& copy) {
  Run((num_bytes + kSliceBytes - 1) / kSliceBytes, [&](int64_t i) {
    int64_t begin = i * kSliceBytes;
    copy(begin, std::min(kSliceBytes, num_bytes - begin));
  });
}

void ParallelArithmetic::Copy(void* to, const void* from, int64_t num_bytes) {
  ForEachPart(num_bytes,
              [&](int64_t begin, int64_t n) { inner_->Copy(At(to, begin), At(from, begin), n); });
}

void ParallelArithmetic::Deliver(void* to, const void* from, int64_t num_bytes) {
  ForEachPart(num_bytes, [&](int64_t begin, int64_t n) {
    inner_->Deliver(At(to, begin), At(from, begin), n);
  });
}

}  // namespace adasum
