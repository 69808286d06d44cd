// The allreduce of tensors that travel encoded, as a request to a communicator:
//
// 1. Every rank encodes the k-th part of each of its tensors for rank k.
// 2. Rank k decodes the k-th parts of all leaves and reduces them.
// 3. It encodes the result for all, who decode all parts.
//
// So every codec serves every reduction that is a weighted sum. Adasum's weights are those of what
// is decoded: all ranks have the same result, bit by bit, and what encoding loses stays with the
// rank that encoded it, as a residual: of its tensors in 1, of its part of the result in 3.
//
// Source: the compressed allreduce of 1-bit Adam (Tang et al., ICML 2021, section 4), there with
// signs and for the mean.
#ifndef ADASUM_COLLECTIVES_COMPRESSED_ALLREDUCE_H_
#define ADASUM_COLLECTIVES_COMPRESSED_ALLREDUCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/engine/request.h"

namespace adasum {

// What belongs to the caller, who keeps it until the request is done. Null where a tensor is empty.
struct CompressedTensors {
  std::string name;
  std::string reduction;  // adasum, mean or sum
  std::string codec;      // as MakeCodec takes it
  DType dtype;
  std::vector<Shape> shapes = {};
  // [replica][tensor].
  std::vector<std::vector<const void*>> inputs = {};
  std::vector<void*> outputs = {};  // [tensor]
  // What each replica lost of each tensor, which becomes what it loses now; of the tensors' shapes.
  // Empty where no residuals are kept, on this rank or any.
  std::vector<std::vector<void*>> residuals = {};
  // The same of this rank's part of each tensor's result: MostPartElements() values each. Empty
  // where `residuals` is.
  std::vector<void*> part_residuals = {};
  // What holds the residuals' memory, until the request is done.
  std::shared_ptr<const void> kept = nullptr;
  // Of every rank; empty where all have as many as this one.
  std::vector<int> replica_counts = {};
};

// The most elements of a tensor of `num_elements` that one of `num_ranks` reduces for all.
int64_t MostPartElements(int64_t num_elements, int num_ranks);

// What the codes of a tensor take that one of `num_ranks` sends, if it sent its own part, too.
// Throws InvalidArgument as MakeCodec does.
int64_t EncodedBytes(const std::string& codec, DType dtype, int64_t num_elements, int num_ranks);

// What arrives of a tensor's `num_elements` values that one of `num_ranks` sends, if it sent its
// own part, too. `residual` is as Codec::Encode's, of the whole tensor. Throws InvalidArgument as
// MakeCodec does.
void EncodeAndDecode(const std::string& codec, DType dtype, int64_t num_elements, int num_ranks,
                     const void* values, void* residual, void* arrived);

// `done` is the caller's to set. Throws InvalidArgument.
Request CompressedAllreduceRequest(CompressedTensors tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_COMPRESSED_ALLREDUCE_H_
