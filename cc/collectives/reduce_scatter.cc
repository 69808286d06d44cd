#include "cc/collectives/reduce_scatter.h"

#include <algorithm>
#include <utility>

#include "cc/algorithms/schedule.h"
#include "cc/arithmetic/cpu_arithmetic.h"
#include "cc/collectives/collective_state.h"
#include "cc/collectives/parts.h"
#include "cc/collectives/refusal.h"
#include "cc/collectives/rows.h"
#include "cc/core/bytes.h"
#include "cc/core/error.h"
#include "cc/reductions/reduction.h"

namespace adasum {
namespace {

// Of each rank's vector, at a time: on a network few messages count more than caches.
constexpr int64_t kNetworkChunkBytes = int64_t{4} << 20;

// Carries out one request. A rank combines what the others send of its own rows, node by node of
// the tree: the bits are those that an allreduce gives.
class Scattering {
 public:
  Scattering(const ReduceScatterTensors& tensors, const Reduction& reduction,
             RequestContext& context)
      : tensors_(tensors),
        reduction_(reduction),
        transport_(context.transport),
        size_(transport_.size()),
        element_bytes_(ElementBytes(tensors.dtype)),
        chunk_((transport_.requires_workspace() ? kCachedBytes : kNetworkChunkBytes) /
               element_bytes_),
        arithmetic_(KernelsOf(context.topology.instruction_set)),
        tree_(MakeTree(size_)) {
    auto& scratch = StateOf(context).scratch;
    if (scratch.empty()) scratch.resize(1);
    received_ = static_cast<char*>(scratch[0].receive.Get(size_ * chunk_ * element_bytes_));
  }

  void Run() {
    for (const ScatteredTensor& tensor : tensors_.tensors) {
      // No rank has more than the first; all go through as many chunks.
      const int64_t most = OfRank(tensor, 0).size();
      for (int64_t begin = 0; begin < most; begin += chunk_) ReduceChunk(tensor, begin);
    }
    arithmetic_.Finish();
  }

 private:
  // The elements that `rank` gets.
  Range OfRank(const ScatteredTensor& tensor, int rank) const {
    const Range rows = RowsOfRank(rank, size_, tensor.num_rows);
    return {rows.begin * tensor.row_elements, rows.end * tensor.row_elements};
  }
  // Those of them in the chunk that begins so many elements behind the first.
  Range ChunkOf(const ScatteredTensor& tensor, int rank, int64_t begin) const {
    const Range all = OfRank(tensor, rank);
    return {std::min(all.begin + begin, all.end), std::min(all.begin + begin + chunk_, all.end)};
  }

  void ReduceChunk(const ScatteredTensor& tensor, int64_t begin) {
    const int rank = transport_.rank();
    const Range own = ChunkOf(tensor, rank, begin);
    ExchangeParts(
        transport_,
        [&](int to) {
          const Range theirs = ChunkOf(tensor, to, begin);
          return Part{At(tensor.input, theirs.begin * element_bytes_),
                      theirs.size() * element_bytes_};
        },
        [&](int from) {
          return PartOfResult{At(received_, from * chunk_ * element_bytes_),
                              own.size() * element_bytes_};
        });
    const int64_t behind = own.begin - OfRank(tensor, rank).begin;
    if (own.size() > 0) Combine(At(tensor.output, behind * element_bytes_), own.size());
  }

  // The received vectors, each into the left one of its node.
  void Combine(char* output, int64_t num_elements) {
    auto vector = [&](int leaf) { return received_ + leaf * chunk_ * element_bytes_; };
    if (size_ == 1) arithmetic_.Copy(output, vector(0), num_elements * element_bytes_);
    for (const TreeNode& node : tree_) {
      char* const out = node.is_final ? output : vector(node.left);
      const std::vector<Piece> pieces{
          {0, vector(node.left), vector(node.right), out, nullptr, num_elements}};
      reduction_.Combine({tensors_.dtype, pieces, node.leaves, node.is_final, {}, arithmetic_});
    }
  }

  const ReduceScatterTensors& tensors_;
  const Reduction& reduction_;
  Transport& transport_;
  const int size_;
  const int64_t element_bytes_;
  const int64_t chunk_;  // elements
  CpuArithmetic arithmetic_;
  const std::vector<TreeNode> tree_;
  char* received_;  // one chunk of every rank
};

const Reduction& CheckedReduction(const std::string& name) {
  const Reduction& reduction = FindReduction(name);
  if (!reduction.NeedsMoments()) return reduction;
  throw Error(ErrorCode::kInvalidArgument,
              "Expected a reduction that works element by element. Received: " + name +
                  ", which looks at whole tensors. Use allreduce and slice its result.");
}

void RefuseScalars(const std::vector<ScatteredTensor>& tensors, const Transport& transport) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].num_rows != kScalar) continue;
    RefuseOnAllRanks(transport,
                     "Expected tensors of at least one dimension, whose rows are scattered. "
                     "Received: scalars as tensor " +
                         std::to_string(i) + ". Use allreduce.");
  }
}

std::string Signature(const ReduceScatterTensors& tensors) {
  std::string text = "reduce_scatter(" + tensors.reduction + ") of " +
                     std::to_string(tensors.tensors.size()) + " " + DTypeName(tensors.dtype) +
                     " tensors";
  const char* separator = " ";
  for (const ScatteredTensor& tensor : tensors.tensors) {
    text += separator + tensor.text;
    separator = ", ";
  }
  return text;
}

}  // namespace

Range RowsOfRank(int rank, int size, int64_t num_rows) {
  const int64_t each = num_rows / size, more = num_rows % size;
  const int64_t begin = rank * each + std::min<int64_t>(rank, more);
  return {begin, begin + each + (rank < more ? 1 : 0)};
}

Request ReduceScatterRequest(ReduceScatterTensors tensors) {
  const Reduction& reduction = CheckedReduction(tensors.reduction);
  RequestKey key(tensors.name, Signature(tensors));
  auto run = [tensors = std::move(tensors), &reduction](RequestContext& context) {
    RefuseScalars(tensors.tensors, context.transport);
    Scattering(tensors, reduction, context).Run();
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
