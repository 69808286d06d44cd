#include "cc/transport/mpi_world.h"

#include <dlfcn.h>

#include <exception>
#include <utility>

#include "cc/core/error.h"

namespace adasum {
namespace {

// The process that loaded the library.
const HomeProcess home;

}  // namespace

void CheckMpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ErrorCode::kInternal, std::string(call) + ": " + std::string(text, length));
}

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
  return std::shared_ptr<MpiWorld>(new MpiWorld(duplicate, std::move(leave)));
}

MpiWorld::MpiWorld(MPI_Comm comm, std::function<void()> leave)
    : comm_(comm), leave_(std::move(leave)), contexts_(comm) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  CheckMpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &BeforeFinalize, &keyval_, nullptr),
           "MPI_Comm_create_keyval");
  CheckMpi(MPI_Comm_set_attr(MPI_COMM_SELF, keyval_, this), "MPI_Comm_set_attr");
}

int MpiWorld::BeforeFinalize(MPI_Comm, int, void* raw, void*) {
  MpiWorld* world = static_cast<MpiWorld*>(raw);
  if (!world->home_.IsHere()) return MPI_SUCCESS;
  // The last group may end meanwhile, and the world with it, if it has not begun to.
  const std::shared_ptr<MpiWorld> kept = world->weak_from_this().lock();
  if (kept == nullptr) return MPI_SUCCESS;
  try {
    world->leave_();
  } catch (const std::exception&) {
    // MPI, which is written in C, ends in any case.
  }
  // MPI wants every message to be received before it ends. It waits for the others by itself.
  constexpr double kSeconds = 2;
  world->contexts_.Drain(kSeconds);
  return MPI_SUCCESS;
}

MpiWorld::~MpiWorld() {
  if (!MpiIsUsable()) return;
  contexts_.Drain(0);
  MPI_Comm_delete_attr(MPI_COMM_SELF, keyval_);
  MPI_Comm_free_keyval(&keyval_);
  MPI_Comm_free(&comm_);
}

bool MpiIsUsable() {
  int initialized = 0, finalized = 1;
  return home.IsHere() && MPI_Initialized(&initialized) == MPI_SUCCESS && initialized &&
         MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

void FinalizeMpi() {
  if (MpiIsUsable()) MPI_Finalize();
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
