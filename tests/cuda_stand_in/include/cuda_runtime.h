// What nvcc's own header adds is not needed on a CPU.
#include <cuda_runtime_api.h>
