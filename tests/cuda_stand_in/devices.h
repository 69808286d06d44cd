// The devices that the CPU stands in for, and their memory.
#ifndef ADASUM_TESTS_CUDA_STAND_IN_DEVICES_H_
#define ADASUM_TESTS_CUDA_STAND_IN_DEVICES_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

namespace cuda_stand_in {

// Ends the process: the code under test did what must not be done.
[[noreturn]] void Die(const std::string& what);

int NumDevices();
// That of the calling thread.
int CurrentDevice();
// Whether anything has made a context on the device, as cudaSetDevice does.
bool HasContext(int device);
// Notes an error that cudaGetLastError returns once, and returns it.
cudaError_t Failed(cudaError_t code);

// Where copies and kernels find device memory [bytes, bytes + num_bytes). Dies unless all of it
// was allocated, and lies on `device` if that is not kAnyDevice.
constexpr int kAnyDevice = -1;
char* OnDevice(const void* bytes, int64_t num_bytes, int device);
bool IsDeviceMemory(const void* bytes);
bool IsPinned(const void* bytes, int64_t num_bytes);

// From now on this process gets so many bytes more of every device; what it frees counts again.
constexpr int64_t kAllBytes = int64_t{1} << 50;
void SetFreeBytes(int64_t num_bytes);
// How often this process has asked for device memory.
int64_t NumMallocs();

}  // namespace cuda_stand_in

#endif  // ADASUM_TESTS_CUDA_STAND_IN_DEVICES_H_
