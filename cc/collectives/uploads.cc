#include "cc/collectives/uploads.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cc/collectives/broadcast.h"
#include "cc/collectives/collective_state.h"
#include "cc/collectives/reduction_spec.h"
#include "cc/collectives/subset_allreduce.h"
#include "cc/transport/gather.h"
#include "cc/transport/subset_transport.h"

namespace adasum {
namespace {

std::vector<int> RanksThatUpload(Transport& transport, bool uploads) {
  const std::vector<std::string> said = GatherTexts(transport, uploads ? "1" : "0");
  std::vector<int> ranks;
  for (int rank = 0; rank < transport.size(); ++rank) {
    if (said[rank] == "1") ranks.push_back(rank);
  }
  return ranks;
}

// Who sends the sums to whom: the k-th rank that does not upload hears from the k-th that does,
// modulo their number. Returns the group that `rank` is in; the first of it sends.
std::vector<int> GroupOf(int rank, int size, const std::vector<int>& uploaders) {
  std::vector<std::vector<int>> groups;
  for (int uploader : uploaders) groups.push_back({uploader});
  size_t next = 0;
  for (int other = 0; other < size; ++other) {
    if (std::count(uploaders.begin(), uploaders.end(), other) > 0) continue;
    groups[next++ % groups.size()].push_back(other);
  }
  for (const std::vector<int>& group : groups) {
    if (std::count(group.begin(), group.end(), rank) > 0) return group;
  }
  return {rank};
}

void Run(const UploadTensors& tensors, RequestContext& context) {
  Transport& transport = context.transport;
  const std::vector<int> uploaders = RanksThatUpload(transport, tensors.uploads);
  *tensors.num_uploads = static_cast<int64_t>(uploaders.size());
  std::vector<int64_t> num_bytes = NumElements(tensors.shapes);
  for (int64_t& each : num_bytes) each *= ElementBytes(tensors.dtype);
  if (uploaders.empty()) {
    for (size_t i = 0; i < num_bytes.size(); ++i) {
      if (num_bytes[i] > 0) std::memset(tensors.outputs[i], 0, num_bytes[i]);
    }
    return;
  }
  if (tensors.uploads) {
    AllreduceTensors sum;
    sum.reduction = "sum";
    sum.dtype = tensors.dtype;
    sum.shapes = tensors.shapes;
    sum.inputs = {tensors.inputs};
    sum.outputs = tensors.outputs;
    AllreduceAmong(uploaders, sum, context, &StateOf(context).state_among);
  }
  const std::vector<int> group = GroupOf(transport.rank(), transport.size(), uploaders);
  SubsetTransport members(&transport, group, SubsetTransport::Workspaces::kAsInAll);
  Broadcast(members, 0, tensors.outputs, num_bytes);
}

}  // namespace

Request UploadRequest(UploadTensors tensors) {
  ReductionSpec::Parse("sum", "", tensors.dtype);
  RequestKey key(tensors.name, "uploads of " + std::to_string(tensors.shapes.size()) + " " +
                                   DTypeName(tensors.dtype) + " tensors " + TextOf(tensors.shapes));
  auto run = [tensors = std::move(tensors)](RequestContext& context) { Run(tensors, context); };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
