#include "cc/transport/mpi_world.h"

#include <dlfcn.h>

#include <utility>

#include "cc/core/error.h"
#include "cc/transport/mpi_check.h"
#include "cc/transport/mpi_end.h"

namespace adasum {

std::shared_ptr<MpiWorld> MpiWorld::Duplicate(int fortran_handle, std::function<void()> leave) {
  int initialized = 0;
  CheckMpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (!initialized) {
    throw Error(
        ErrorCode::kInternal,
        "Expected MPI to be initialised in the MPI library that tf_adasum was built with. "
        "mpi4py seems to use another MPI: see 'One MPI for everybody' in docs/building.md.");
  }
  int level = MPI_THREAD_SINGLE;
  CheckMpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level < MPI_THREAD_MULTIPLE) {
    throw Error(ErrorCode::kInternal,
                "Expected an MPI that gives MPI_THREAD_MULTIPLE, since the communication thread "
                "works beside yours. Received: thread level " +
                    std::to_string(level) +
                    ". Use an MPI built with thread support, or "
                    "initialise mpi4py with rc.thread_level = 'multiple'.");
  }
  MPI_Comm duplicate = MPI_COMM_NULL;
  CheckMpi(MPI_Comm_dup(MPI_Comm_f2c(fortran_handle), &duplicate), "MPI_Comm_dup");
  const std::shared_ptr<MpiWorld> world(new MpiWorld(duplicate));
  LeaveBeforeMpiEnds(world, std::move(leave));
  // MPI wants every message to be received before it ends. It waits for the others by itself.
  LeaveBeforeMpiEnds(world, [&contexts = world->contexts_] {
    constexpr double kSeconds = 2;
    contexts.Drain(kSeconds);
  });
  return world;
}

MpiWorld::MpiWorld(MPI_Comm comm) : comm_(comm), contexts_(comm) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
}

MpiWorld::~MpiWorld() {
  IfMpiIsUsable([this] {
    contexts_.Drain(0);
    MPI_Comm_free(&comm_);
  });
}

bool MpiTakesDeviceMemory(bool is_wanted) {
  if (!is_wanted) return false;
  // An extension, so looked up among the libraries that this one was loaded with.
  using Query = int (*)();
  const auto query = reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
  return query != nullptr && query() == 1;
}

std::string MpiLibraryVersion() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
  std::string version(text);  // Open MPI counts the final zero in `length`
  return version.substr(0, version.find('\n'));
}

}  // namespace adasum
