// The codes of an allreduce of encoded tensors: made from values, and turned into values.
#ifndef ADASUM_COLLECTIVES_TENSOR_CODES_H_
#define ADASUM_COLLECTIVES_TENSOR_CODES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cc/arithmetic/instruction_sets.h"
#include "cc/collectives/code_places.h"
#include "cc/collectives/compressed_allreduce.h"
#include "cc/collectives/compressed_scratch.h"
#include "cc/collectives/reduce_held.h"
#include "cc/compression/codec.h"
#include "cc/core/leaf_numbers.h"
#include "cc/core/timeline.h"
#include "cc/core/transport.h"

namespace adasum {

// Codes: where they lie, and how long they are.
struct CodeSpan {
  char* bytes;
  int64_t num_bytes;
};

// Of one request. A rank carries out what its replicas ask for together. Tensors travel in groups.
class TensorCodes {
 public:
  // `tensors`, `scratch` and `timeline`, which may be null, outlive it. Groups have at least
  // `group_elements` values, but for the last.
  TensorCodes(const CompressedTensors& tensors, std::vector<int64_t> num_elements,
              const Transport& transport, CompressedScratch& scratch,
              InstructionSet instruction_set, int64_t group_elements, Timeline* timeline);

  // Collective, before all else. Throws ResourceExhausted on all ranks where one lacks memory.
  void Allocate(Transport& transport);

  int64_t num_groups() const { return static_cast<int64_t>(places_.groups().size()); }
  // What is decoded of all leaves, and where its reduction is to be: this rank's part of it.
  const HeldLeaves& held() const { return held_; }

  // Of a group, all replicas' codes for a rank; and those of a rank's replicas for this one.
  CodeSpan Sent(int64_t group, int to) const;
  CodeSpan Received(int64_t group, int from) const;
  // Of a group, the codes of this rank's part of the result; and of another's.
  CodeSpan ResultSent(int64_t group) const;
  CodeSpan ResultReceived(int64_t group, int from) const;

  // All replicas' parts for a rank.
  void EncodeLeaves(int64_t group, int to, const CodeSpan& codes);
  // What was received of a group, into held(), behind the groups before.
  void DecodeLeaves(int64_t group);
  // held()'s result of a group, into ResultSent.
  void EncodeResult(int64_t group);
  // A rank's part of the result, into the outputs.
  void DecodeResult(int64_t group, int from, const CodeSpan& codes);

 private:
  int64_t ValueBytes(int64_t group, int rank) const;
  int64_t PartBytes(size_t tensor) const;

  const CompressedTensors& tensors_;
  CompressedScratch& scratch_;
  Timeline* const timeline_;
  const std::unique_ptr<Codec> codec_;
  const LeafNumbers numbers_;
  const int rank_, size_, num_replicas_, num_leaves_;
  const int64_t element_bytes_;
  const CodePlaces places_;
  HeldLeaves held_;
  char* room_ = nullptr;  // for values, behind those of `held_`
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_TENSOR_CODES_H_
