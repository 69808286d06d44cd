// The part of the CUDA runtime that this library's host code uses, for a CPU that stands in for
// the devices. It says nothing about speed. Where CUDA leaves something undefined, or would work
// less well than the caller thinks, the stand-in ends the process with a line that says what.
//
// Streams are threads. Device memory can't be touched at its own addresses, by nobody but copies
// and kernels on a stream. It lies in anonymous files, so that processes can open each other's.
//
// CUDA_STAND_IN sets how streams run, before the first call: "soon" (at once, with small random
// delays), "slow" (each thing after 5 ms) or "late" (a stream does nothing that nobody waits for,
// as if the device were busy with others until then: whoever leaves out a wait finds that what it
// needs has not happened). CUDA_STAND_IN_DEVICES: how many there are; 1 if unset.
// CUDA_STAND_IN_IPC=0: other processes can't open this one's memory; =blind: it can't open theirs.
#ifndef ADASUM_TESTS_CUDA_STAND_IN_CUDA_RUNTIME_API_H_
#define ADASUM_TESTS_CUDA_STAND_IN_CUDA_RUNTIME_API_H_

#include <cstddef>

#define CUDART_CB

enum cudaError_t {
  cudaSuccess,
  cudaErrorInvalidValue,
  cudaErrorMemoryAllocation,
  cudaErrorInvalidDevice,
  cudaErrorNotReady,
  cudaErrorMapBufferObjectFailed,
  cudaErrorNotSupported,
  cudaErrorPeerAccessAlreadyEnabled,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
};
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
constexpr unsigned cudaEventDisableTiming = 2;
constexpr unsigned cudaStreamNonBlocking = 1;
constexpr unsigned cudaIpcMemLazyEnablePeerAccess = 1;

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
struct cudaIpcMemHandle_t {
  char reserved[64];
};
typedef void (*cudaHostFn_t)(void*);

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t code);

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device);
cudaError_t cudaDeviceCanAccessPeer(int* can, int from, int to);
cudaError_t cudaDeviceEnablePeerAccess(int to, unsigned flags);
cudaError_t cudaDeviceSynchronize();

cudaError_t cudaMalloc(void** bytes, size_t num_bytes);
cudaError_t cudaFree(void* bytes);
cudaError_t cudaMallocHost(void** bytes, size_t num_bytes);
cudaError_t cudaFreeHost(void* bytes);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* bytes);
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* bytes);
cudaError_t cudaIpcOpenMemHandle(void** bytes, cudaIpcMemHandle_t handle, unsigned flags);
cudaError_t cudaIpcCloseMemHandle(void* bytes);

cudaError_t cudaMemcpy(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind);
cudaError_t cudaMemset(void* to, int value, size_t num_bytes);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t num_bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t num_bytes, cudaStream_t stream);
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);

#endif  // ADASUM_TESTS_CUDA_STAND_IN_CUDA_RUNTIME_API_H_
