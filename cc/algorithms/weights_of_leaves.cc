#include "cc/algorithms/weights_of_leaves.h"

#include <algorithm>
#include <utility>

#include "cc/algorithms/for_each_peer.h"
#include "cc/algorithms/tree_weights.h"

namespace adasum {
namespace {

// In the order of the leaves, so that all have the same bits. The sums take the place of the grams.
void SumOverLeaves(Transport& transport, LeafScratch& scratch) {
  std::vector<double>& grams = scratch.grams;
  std::vector<double>& all = scratch.grams_of_leaves;
  const int rank = transport.rank(), size = transport.size();
  const size_t count = grams.size();
  const int64_t num_bytes = static_cast<int64_t>(count * sizeof(double));
  all.resize(size * count);
  auto send = [&](int peer) { return Send{peer, grams.data(), num_bytes}; };
  auto receive = [&](int peer) { return Recv{peer, &all[peer * count], num_bytes}; };
  // What is sent alone waits for its receiver elsewhere.
  if (num_bytes <= transport.ShortBytes() && AllShareMemory(transport)) {
    ForEachPeer(transport, [&](int peer) { transport.SendRecv(send(peer), {peer, nullptr, 0}); });
    ForEachPeer(transport,
                [&](int peer) { transport.SendRecv({peer, nullptr, 0}, receive(peer)); });
  } else {
    ForEachPeer(transport, [&](int peer) {
      transport.SendRecv(send(peer), receive((2 * rank + size - peer) % size));
    });
  }
  std::copy(grams.begin(), grams.end(), all.begin() + rank * count);
  std::copy(all.begin(), all.begin() + count, grams.begin());
  for (size_t i = count; i < all.size(); ++i) grams[i % count] += all[i];
}

}  // namespace

bool WeightsOfLeaves(const LeafTensors& tensors, const CollectiveContext& context,
                     const std::vector<TreeNode>& tree, std::vector<double> grams,
                     std::vector<double>* weights) {
  const int size = context.transport.size();
  const int64_t num_segments = tensors.segments.size();
  // In the group's memory: a message that is given up may still be under way (HasAbandoned).
  context.scratch.grams = std::move(grams);
  SumOverLeaves(context.transport, context.scratch);
  weights->resize(num_segments * size);
  for (int64_t segment = 0; segment < num_segments; ++segment) {
    const double* const gram = &context.scratch.grams[segment * GramSize(size)];
    double* const of_segment = weights->data() + segment * size;
    if (!WeightsOfTree(context.reduction, tree, size, tensors.dtype, gram, of_segment)) {
      return false;
    }
    if (tensors.norms != nullptr) tensors.norms[segment] = NormsOfSum(size, gram, of_segment);
  }
  return true;
}

}  // namespace adasum
