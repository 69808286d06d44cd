#include "cc/transport/mpi_end.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cc/core/forks.h"
#include "cc/transport/mpi_check.h"

namespace adasum {
namespace {

struct User {
  std::weak_ptr<void> user;
  std::function<void()> leave;
};

struct End {
  // What uses MPI: the process that loaded the library, or a child of it that is the rank.
  std::optional<HomeProcess> home{std::in_place};
  std::mutex mutex;
  std::atomic<bool> has_come{false};
  bool is_awaited = false;
  std::vector<User> users;
};

End& TheEnd() {
  // Never destroyed: MPI may be finalised after static destructors.
  static End* end = new End;
  return *end;
}

// At the library's load, so that its home is the process that loaded it.
const End& loaded = TheEnd();

// What MPI calls when MPI_COMM_SELF ends, which is how MPI_Finalize begins.
int BeforeFinalize(MPI_Comm, int, void*, void*) {
  End& end = TheEnd();
  if (!end.home->IsHere()) return MPI_SUCCESS;
  std::vector<User> users;
  {
    std::lock_guard<std::mutex> lock(end.mutex);
    users.swap(end.users);
  }
  for (const User& each : users) {
    // Others may let go of it meanwhile: it is destroyed here then.
    const std::shared_ptr<void> kept = each.user.lock();
    if (kept == nullptr) continue;
    try {
      each.leave();
    } catch (const std::exception&) {
      // MPI, which is written in C, ends in any case.
    }
  }
  std::lock_guard<std::mutex> lock(end.mutex);
  end.has_come = true;
  return MPI_SUCCESS;
}

// Once in a process, and nobody but MPI deletes it: MPI gives up its lock while it calls us, so
// that it would use what another thread deletes then.
void Await() {
  int key = MPI_KEYVAL_INVALID;
  CheckMpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &BeforeFinalize, &key, nullptr),
           "MPI_Comm_create_keyval");
  const int code = MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
  MPI_Comm_free_keyval(&key);  // an attribute that is set keeps what belongs to it
  CheckMpi(code, "MPI_Comm_set_attr");
}

}  // namespace

void LeaveBeforeMpiEnds(const std::shared_ptr<void>& user, std::function<void()> leave) {
  End& end = TheEnd();
  std::lock_guard<std::mutex> lock(end.mutex);
  if (!end.is_awaited) {
    Await();
    end.home.emplace();
    end.is_awaited = true;
  }
  auto is_gone = [](const User& each) { return each.user.expired(); };
  end.users.erase(std::remove_if(end.users.begin(), end.users.end(), is_gone), end.users.end());
  end.users.push_back({user, std::move(leave)});
}

bool MpiIsUsable() {
  int initialized = 0, finalized = 1;
  return TheEnd().home->IsHere() && !TheEnd().has_come &&
         MPI_Initialized(&initialized) == MPI_SUCCESS && initialized &&
         MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized;
}

void IfMpiIsUsable(const std::function<void()>& call) {
  End& end = TheEnd();
  if (!end.home->IsHere()) return;
  std::lock_guard<std::mutex> lock(end.mutex);
  if (MpiIsUsable()) call();
}

void FinalizeMpi() {
  if (MpiIsUsable()) MPI_Finalize();
}

}  // namespace adasum
