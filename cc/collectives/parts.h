// Bytes from every rank to every rank, as much from each to each as they please.
#ifndef ADASUM_COLLECTIVES_PARTS_H_
#define ADASUM_COLLECTIVES_PARTS_H_

#include <cstdint>
#include <functional>

#include "cc/core/transport.h"

namespace adasum {

// Some of a tensor's bytes.
struct Part {
  const void* bytes;
  int64_t num_bytes;
};
struct PartOfResult {
  void* bytes;
  int64_t num_bytes;
};

// Collective. Every rank sends give(r) to each rank r and receives take(r) from it, itself
// included; both sides know how long each part is. Parts of more than kOwnBytes belong to the
// request's tensors, or to the group.
void ExchangeParts(Transport& transport, const std::function<Part(int)>& give,
                   const std::function<PartOfResult(int)>& take);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_PARTS_H_
