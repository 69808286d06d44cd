// The sum over those ranks that have something to say, which each finds for itself.
#ifndef ADASUM_COLLECTIVES_UPLOADS_H_
#define ADASUM_COLLECTIVES_UPLOADS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cc/collectives/allreduce.h"
#include "cc/core/dtype.h"
#include "cc/engine/request.h"

namespace adasum {

struct UploadTensors {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<Shape> shapes;
  bool uploads = false;  // whether this rank's count; unlike on ranks
  std::vector<const void*> inputs;
  std::vector<void*> outputs;      // the sum over ranks that upload; zero where none does
  int64_t* num_uploads = nullptr;  // of how many ranks; written
};

// Ranks tell each other in a few bytes whether they upload. Those that do make an allreduce among
// themselves, and then send the sums to the others; where none does nothing else travels. Without
// `done`. Throws InvalidArgument.
Request UploadRequest(UploadTensors tensors);

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_UPLOADS_H_
