#include "tests/cuda_stand_in/devices.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace cuda_stand_in {
namespace {

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;
std::atomic<unsigned> contexts{0};

bool IsDevice(int device) { return device >= 0 && device < NumDevices(); }

}  // namespace

void Die(const std::string& what) {
  std::fprintf(stderr, "CUDA stand-in: %s\n", what.c_str());
  std::abort();
}

int NumDevices() {
  const char* text = std::getenv("CUDA_STAND_IN_DEVICES");
  return text == nullptr ? 1 : std::atoi(text);
}

int CurrentDevice() { return current_device; }

bool HasContext(int device) { return (contexts >> device) & 1; }

cudaError_t Failed(cudaError_t code) { return last_error = code; }

}  // namespace cuda_stand_in

using cuda_stand_in::Failed;

cudaError_t cudaGetLastError() {
  const cudaError_t code = cuda_stand_in::last_error;
  cuda_stand_in::last_error = cudaSuccess;
  return code;
}

const char* cudaGetErrorString(cudaError_t code) {
  const char* names[] = {
      "no error",  "invalid value",  "out of memory", "invalid device",
      "not ready", "mapping failed", "not supported", "peer access enabled already"};
  return names[code];
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = cuda_stand_in::NumDevices();
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = cuda_stand_in::CurrentDevice();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!cuda_stand_in::IsDevice(device)) return Failed(cudaErrorInvalidDevice);
  cuda_stand_in::current_device = device;
  cuda_stand_in::contexts |= 1u << device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  if (!cuda_stand_in::IsDevice(device) || size < 13) return Failed(cudaErrorInvalidValue);
  std::snprintf(text, size, "0000:%02x:00.0", 16 + device);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int from, int to) {
  if (!cuda_stand_in::IsDevice(from) || !cuda_stand_in::IsDevice(to)) {
    return Failed(cudaErrorInvalidDevice);
  }
  *can = from != to;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int to, unsigned) {
  // Copies find their way; kernels are never let at another device's memory here.
  thread_local unsigned enabled = 0;
  if (!cuda_stand_in::IsDevice(to) || to == cuda_stand_in::CurrentDevice()) {
    return Failed(cudaErrorInvalidDevice);
  }
  const unsigned pair = 1u << (cuda_stand_in::CurrentDevice() * 4 + to);
  if (enabled & pair) return Failed(cudaErrorPeerAccessAlreadyEnabled);
  enabled |= pair;
  return cudaSuccess;
}
