// Our own duplicate of an MPI communicator: our messages can never meet the user's.
#ifndef ADASUM_TRANSPORT_MPI_WORLD_H_
#define ADASUM_TRANSPORT_MPI_WORLD_H_

#include <mpi.h>

#include <memory>
#include <string>

namespace adasum {

class MpiWorld {
 public:
  // Duplicates the communicator with this Fortran handle (mpi4py: comm.py2f()); collective. Throws
  // Internal if MPI is not initialised or gives less than MPI_THREAD_MULTIPLE.
  static std::shared_ptr<MpiWorld> Duplicate(int fortran_handle);
  // Frees the duplicate, unless MPI was finalised before.
  ~MpiWorld();

  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  MPI_Comm comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  explicit MpiWorld(MPI_Comm comm);

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
};

// Throws Internal with MPI's own words unless `code` is MPI_SUCCESS.
void CheckMpi(int code, const char* call);

// Whether the MPI library takes addresses in the memory of CUDA devices. It is asked by a function
// that not every MPI has; TF_ADASUM_CUDA_MPI=0 answers in its place.
bool MpiTakesDeviceMemory();

// The first line of MPI_Get_library_version.
std::string MpiLibraryVersion();

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_WORLD_H_
