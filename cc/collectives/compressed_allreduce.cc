#include "cc/collectives/compressed_allreduce.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "cc/algorithms/schedule.h"
#include "cc/collectives/collective_state.h"
#include "cc/collectives/compressed_execution.h"
#include "cc/collectives/reduction_spec.h"
#include "cc/compression/codec.h"
#include "cc/core/error.h"

namespace adasum {
namespace {

const char* const kReductions[] = {"adasum", "mean", "sum"};

const Reduction& CheckedReduction(const CompressedTensors& tensors) {
  const ReductionSpec spec = ReductionSpec::Parse(tensors.reduction, "", tensors.dtype);
  if (std::find(std::begin(kReductions), std::end(kReductions), tensors.reduction) !=
      std::end(kReductions)) {
    return *spec.across;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "Expected the reduction adasum, mean or sum for tensors that travel encoded. "
              "Received: " +
                  tensors.reduction + ". Leave compression out.");
}

std::string Signature(const CompressedTensors& tensors) {
  return "allreduce(" + tensors.reduction + ") by " + tensors.codec + " of " +
         std::to_string(tensors.shapes.size()) + " " + DTypeName(tensors.dtype) + " tensors " +
         TextOf(tensors.shapes) + ReplicasText(tensors.inputs.size(), tensors.replica_counts);
}

}  // namespace

int64_t MostPartElements(int64_t num_elements, int num_ranks) {
  return PartOf(0, num_ranks, num_elements).size();
}

int64_t EncodedBytes(const std::string& codec, DType dtype, int64_t num_elements, int num_ranks) {
  const auto made = MakeCodec(codec, dtype, BaselineCodecKernels());
  int64_t num_bytes = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    num_bytes += made->EncodedBytes(PartOf(rank, num_ranks, num_elements).size());
  }
  return num_bytes;
}

void EncodeAndDecode(const std::string& codec, DType dtype, int64_t num_elements, int num_ranks,
                     const void* values, void* residual, void* arrived) {
  const auto made = MakeCodec(codec, dtype, CodecKernelsOf(WidestInstructionSet()));
  std::vector<char> code;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const Range part = PartOf(rank, num_ranks, num_elements);
    const int64_t skip = part.begin * static_cast<int64_t>(ElementBytes(dtype));
    void* const lost = residual == nullptr ? nullptr : static_cast<char*>(residual) + skip;
    code.resize(made->EncodedBytes(part.size()));
    made->Encode(static_cast<const char*>(values) + skip, lost, part.size(), code.data());
    made->Decode(code.data(), part.size(), static_cast<char*>(arrived) + skip);
  }
}

Request CompressedAllreduceRequest(CompressedTensors tensors) {
  const Reduction& reduction = CheckedReduction(tensors);
  // Here, so that a codec that there is not is refused before other ranks hear of it.
  MakeCodec(tensors.codec, tensors.dtype, BaselineCodecKernels());
  RequestKey key(tensors.name, Signature(tensors));
  auto run = [tensors = std::move(tensors), &reduction](RequestContext& context) {
    CompressedScratch& scratch = StateOf(context).compressed_scratch;
    ExecuteCompressedAllreduce(tensors, reduction, context.transport,
                               context.topology.instruction_set, scratch, context.timeline);
  };
  return {std::move(key), std::move(run), nullptr};
}

}  // namespace adasum
