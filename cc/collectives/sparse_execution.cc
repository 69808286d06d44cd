#include "cc/collectives/sparse_execution.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/collective_state.h"
#include "cc/collectives/parts.h"
#include "cc/collectives/reduce_held.h"
#include "cc/collectives/row_lists.h"
#include "cc/collectives/rows.h"
#include "cc/collectives/sparse_deal.h"
#include "cc/collectives/take_together.h"
#include "cc/core/bytes.h"

namespace adasum {
namespace {

// One request. A rank carries out what its replicas ask for together.
//
// Every rank gets a range of the indices of each tensor, and the rows in it of all leaves. It puts
// them over their union, where they are dense vectors whose moments are sums over the ranks, and
// gives its range of the result to all. For N leaves that have n rows of B bytes each, on N ranks,
// a rank sends (N - 1) / N of n B, and then its N-th of the union, at most n B, N - 1 times.
class SparseExecution {
 public:
  SparseExecution(const SparseAllreduceTensors& request, const Reduction& reduction,
                  RequestContext& context)
      : request_(request),
        reduction_(reduction),
        transport_(context.transport),
        arithmetic_(KernelsOf(context.topology.instruction_set)),
        scratch_(StateOf(context).sparse_scratch),
        num_tensors_(request.tensors.size()),
        element_bytes_(ElementBytes(request.dtype)) {}

  void Run() {
    SparseDeal deal(request_, transport_, arithmetic_, scratch_);
    deal.Exchange();
    JoinRanges(deal);
    ReduceRanges(deal);
    GiveBack();
  }

 private:
  int64_t RowBytes(size_t tensor) const {
    return request_.tensors[tensor].row_elements * element_bytes_;
  }
  // Rows of a tensor's result on the ranks before `rank`.
  int64_t RowsBefore(size_t tensor, int rank) const {
    int64_t num_rows = 0;
    for (int r = 0; r < rank; ++r) num_rows += counts_[r][tensor];
    return num_rows;
  }
  char* ResultOf(size_t tensor, int rank) const {
    return At(results_[tensor].values, RowsBefore(tensor, rank) * RowBytes(tensor));
  }

  void JoinRanges(const SparseDeal& deal);
  void ReduceRanges(const SparseDeal& deal);
  HeldSegment Spread(const SparseDeal& deal, size_t tensor, char** room);
  void GiveBack();

  const SparseAllreduceTensors& request_;
  const Reduction& reduction_;
  Transport& transport_;
  CpuArithmetic arithmetic_;
  SparseScratch& scratch_;
  const size_t num_tensors_;
  const int64_t element_bytes_;
  std::vector<std::vector<int64_t>> unions_;  // of each tensor, in this rank's range
  Counts counts_;                             // of all ranks' unions: [rank][tensor]
  std::vector<ReducedRows> results_;
};

// The rows of the result in this rank's range, and where all of the result goes.
void SparseExecution::JoinRanges(const SparseDeal& deal) {
  std::vector<int64_t> mine;
  int64_t room = 0;
  for (size_t i = 0; i < num_tensors_; ++i) {
    unions_.emplace_back();
    for (int leaf = 0; leaf < deal.num_leaves(); ++leaf) {
      const DealtRows rows = deal.RowsOf(i, leaf);
      Join(rows.indices, rows.num_rows, &unions_[i]);
    }
    mine.push_back(static_cast<int64_t>(unions_[i].size()));
    room += deal.num_leaves() * mine.back() * RowBytes(i);
  }
  counts_ = GatherRows(transport_, mine);
  std::vector<int64_t> totals;
  for (size_t i = 0; i < num_tensors_; ++i) totals.push_back(RowsBefore(i, transport_.size()));
  AllocateTogether(transport_, "rows", [&] {
    results_ = request_.allocate(totals);
    AllocateScratch(&scratch_.spread, room);
  });
}

void SparseExecution::ReduceRanges(const SparseDeal& deal) {
  HeldLeaves held{request_.dtype, deal.num_leaves(), {}};
  char* room = static_cast<char*>(scratch_.spread.Get(0));
  for (size_t i = 0; i < num_tensors_; ++i) held.segments.push_back(Spread(deal, i, &room));
  ReduceHeld(held, reduction_, transport_, arithmetic_);
}

// Every leaf's values over the union. Those of a leaf that has all of it lie so already.
HeldSegment SparseExecution::Spread(const SparseDeal& deal, size_t tensor, char** room) {
  const std::vector<int64_t>& all = unions_[tensor];
  const int64_t num_rows = static_cast<int64_t>(all.size());
  HeldSegment segment{
      {}, ResultOf(tensor, transport_.rank()), num_rows * request_.tensors[tensor].row_elements};
  for (int leaf = 0; leaf < deal.num_leaves(); ++leaf) {
    const DealtRows rows = deal.RowsOf(tensor, leaf);
    segment.leaves.push_back(rows.values);
    if (rows.num_rows == num_rows) continue;
    segment.leaves.back() = *room;
    SpreadRows(rows.indices, rows.num_rows, rows.values, RowBytes(tensor), all, *room);
    *room += num_rows * RowBytes(tensor);
  }
  return segment;
}

// Every rank's range to every rank.
void SparseExecution::GiveBack() {
  const int rank = transport_.rank();
  for (size_t i = 0; i < num_tensors_; ++i) {
    int64_t* const indices = results_[i].indices;
    std::copy(unions_[i].begin(), unions_[i].end(), indices + RowsBefore(i, rank));
    auto share = [&](void* result, int64_t row_bytes) {
      auto range = [&](int of) {
        return PartOfResult{At(result, RowsBefore(i, of) * row_bytes), counts_[of][i] * row_bytes};
      };
      ExchangeParts(
          transport_,
          [&](int to) {
            const PartOfResult own = range(rank);
            return to == rank ? Part{nullptr, 0} : Part{own.bytes, own.num_bytes};
          },
          range);
    };
    share(indices, sizeof(int64_t));
    share(results_[i].values, RowBytes(i));
  }
}

}  // namespace

void ExecuteSparseAllreduce(const SparseAllreduceTensors& tensors, const Reduction& reduction,
                            RequestContext& context) {
  SparseExecution(tensors, reduction, context).Run();
}

}  // namespace adasum
