// Streams as threads.
#ifndef ADASUM_TESTS_CUDA_STAND_IN_STREAMS_H_
#define ADASUM_TESTS_CUDA_STAND_IN_STREAMS_H_

#include <cuda_runtime_api.h>

#include <functional>

namespace cuda_stand_in {

// Puts work on a stream. It is told the stream's device.
void Enqueue(cudaStream_t stream, std::function<void(int device)> work);

// The default stream of the current device, which others don't wait for: they are non-blocking.
cudaStream_t DefaultStream();

}  // namespace cuda_stand_in

#endif  // ADASUM_TESTS_CUDA_STAND_IN_STREAMS_H_
