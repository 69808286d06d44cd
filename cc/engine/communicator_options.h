// The settings of a communicator, and the one reader of the environment.
#ifndef ADASUM_ENGINE_COMMUNICATOR_OPTIONS_H_
#define ADASUM_ENGINE_COMMUNICATOR_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>

#include "cc/arithmetic/instruction_sets.h"
#include "cc/core/backoff.h"
#include "cc/core/tuning.h"

namespace adasum {

// Of tensors in the memory of CUDA devices.
struct CudaOptions {
  // Whether other processes of the host may read this one's device memory. TF_ADASUM_CUDA_IPC.
  bool ipc = true;
  // Whether MPI is handed device memory, if it takes any. TF_ADASUM_CUDA_MPI.
  bool mpi = true;
  // How much is exchanged at a time; 0 for what suits the way. TF_ADASUM_CUDA_STEP_BYTES.
  int64_t chunk_bytes = 0;
};

// What a caller of split() sets other than the environment does: values by the names of the
// options, "shared_memory", "zero_copy" and "cross_memory" ("0" or "1") and "timeline" (a path).
using GivenOptions = std::map<std::string, std::string>;

// docs/settings.md describes each for users.
struct CommunicatorOptions {
  // Variables that are not set leave the defaults; what is given counts more. Throws
  // InvalidArgument for a value that is none of a setting's, and for an option there is not.
  static CommunicatorOptions FromEnvironment(const GivenOptions& given = {});

  // TF_ADASUM_TIMEOUT_SECONDS, TF_ADASUM_MISMATCH_SECONDS.
  Timeouts timeouts;
  // The name of this process' host, for hosts that share one, and for network namespaces; empty for
  // the system's. TF_ADASUM_HOST.
  std::string host;
  // How many cores this process uses, where others want some; 0 for all that it may run on.
  // TF_ADASUM_CORES.
  int cores = 0;
  // The widest for the arithmetic; narrower on a CPU that lacks it. TF_ADASUM_INSTRUCTION_SET.
  InstructionSet instruction_set = InstructionSet::kAvx512;
  // Whether ranks of a host read each other's memory. TF_ADASUM_SHARED_MEMORY.
  bool shared_memory = true;
  // Whether they read tensors that lie in shared memory there, rather than packed.
  bool zero_copy = true;
  // Whether they copy from and to tensors that lie elsewhere, where the system lets them and that
  // is quicker than packing. TF_ADASUM_CROSS_MEMORY.
  bool cross_memory = true;
  CudaOptions cuda;
  // TF_ADASUM_TUNE: 0, 1 or the file that keeps what is measured. TF_ADASUM_VERBOSE.
  TuningSettings tuning;
  // Where timelines go, one file for each rank and communicator; empty for none.
  // TF_ADASUM_TIMELINE.
  std::string timeline;
};

}  // namespace adasum

#endif  // ADASUM_ENGINE_COMMUNICATOR_OPTIONS_H_
