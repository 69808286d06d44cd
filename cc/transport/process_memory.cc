#include "cc/transport/process_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "cc/core/error.h"

namespace adasum {
namespace {

// IOV_MAX of Linux.
constexpr size_t kMostParts = 1024;

// Leaves out the first so many bytes.
void Skip(int64_t num_bytes, std::vector<iovec>* parts) {
  auto first = parts->begin();
  for (; first != parts->end() && num_bytes >= static_cast<int64_t>(first->iov_len); ++first) {
    num_bytes -= static_cast<int64_t>(first->iov_len);
  }
  if (first != parts->end()) {
    first->iov_base = static_cast<char*>(first->iov_base) + num_bytes;
    first->iov_len -= num_bytes;
  }
  parts->erase(parts->begin(), first);
}

}  // namespace

template <typename Call>
void ProcessMemory::ForEachBatch(const std::vector<RemoteBytes>& parts, Call call) const {
  std::vector<iovec> here, there;
  for (size_t begin = 0; begin < parts.size(); begin += kMostParts) {
    here.clear();
    there.clear();
    const size_t end = std::min(begin + kMostParts, parts.size());
    for (size_t i = begin; i < end; ++i) {
      if (parts[i].num_bytes == 0) continue;
      const auto num_bytes = static_cast<size_t>(parts[i].num_bytes);
      here.push_back({parts[i].here, num_bytes});
      there.push_back({reinterpret_cast<void*>(parts[i].there), num_bytes});
    }
    // The system may stop between two pages.
    while (!here.empty()) {
      const ssize_t num_moved = call(here, there);
      if (num_moved <= 0) {
        throw Error(ErrorCode::kInternal,
                    "Expected to reach the memory of rank " + std::to_string(peer_) + " (process " +
                        std::to_string(pid_) +
                        "). Received: " + (num_moved == 0 ? "nothing" : std::strerror(errno)) +
                        ". Look at that rank's log; TF_ADASUM_CROSS_MEMORY=0 does without.");
      }
      Skip(num_moved, &here);
      Skip(num_moved, &there);
    }
  }
}

bool ProcessMemory::HasPages(const std::vector<const void*>& addresses) const {
  std::vector<char> bytes(addresses.size());
  std::vector<iovec> there;
  for (size_t begin = 0; begin < addresses.size(); begin += kMostParts) {
    const size_t count = std::min(kMostParts, addresses.size() - begin);
    there.clear();
    for (size_t i = 0; i < count; ++i) {
      there.push_back({const_cast<void*>(addresses[begin + i]), 1});
    }
    const iovec all{bytes.data(), count};
    const ssize_t num_read =
        process_vm_readv(static_cast<pid_t>(pid_), &all, 1, there.data(), count, 0);
    if (num_read != static_cast<ssize_t>(count)) return false;
  }
  return true;
}

void ProcessMemory::Fetch(const std::vector<RemoteBytes>& parts) const {
  ForEachBatch(parts, [this](const std::vector<iovec>& here, const std::vector<iovec>& there) {
    return process_vm_readv(static_cast<pid_t>(pid_), here.data(), here.size(), there.data(),
                            there.size(), 0);
  });
}

void ProcessMemory::Store(const std::vector<RemoteBytes>& parts) const {
  ForEachBatch(parts, [this](const std::vector<iovec>& here, const std::vector<iovec>& there) {
    return process_vm_writev(static_cast<pid_t>(pid_), here.data(), here.size(), there.data(),
                             there.size(), 0);
  });
}

}  // namespace adasum
