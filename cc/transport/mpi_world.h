// Our own duplicate of an MPI communicator: our messages can never meet the user's.
#ifndef ADASUM_TRANSPORT_MPI_WORLD_H_
#define ADASUM_TRANSPORT_MPI_WORLD_H_

#include <mpi.h>

#include <functional>
#include <memory>
#include <string>

#include "cc/transport/mpi_contexts.h"

namespace adasum {

class MpiWorld {
 public:
  // Duplicates the communicator with this Fortran handle (mpi4py: comm.py2f()); collective. Throws
  // Internal if MPI is not initialised or gives less than MPI_THREAD_MULTIPLE. `leave` is called
  // first of all when MPI is finalised, by whomever: it must see to it that nobody uses the
  // duplicate afterwards.
  static std::shared_ptr<MpiWorld> Duplicate(int fortran_handle, std::function<void()> leave);
  // Frees the duplicate, unless MPI was finalised before.
  ~MpiWorld();

  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  MpiContexts& contexts() { return contexts_; }

 private:
  explicit MpiWorld(MPI_Comm comm);

  MPI_Comm comm_;
  MpiContexts contexts_;
  int rank_ = 0;
  int size_ = 1;
};

// Whether the MPI library takes addresses in the memory of CUDA devices, and this is wanted. MPI is
// asked by a function that not every MPI has.
bool MpiTakesDeviceMemory(bool is_wanted);

// The first line of MPI_Get_library_version.
std::string MpiLibraryVersion();

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_WORLD_H_
