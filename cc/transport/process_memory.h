// The memory of another process of the host, as Linux lets processes of one user copy from and to
// it (cross-memory attach, process_vm_readv(2)).
#ifndef ADASUM_TRANSPORT_PROCESS_MEMORY_H_
#define ADASUM_TRANSPORT_PROCESS_MEMORY_H_

#include <cstdint>
#include <vector>

#include "cc/core/transport.h"

namespace adasum {

// Rank `peer`'s process. Any thread may call it. Fetch and Store throw Internal where the system
// refuses: it has rules of its own for who may (ptrace(2)), some containers none that do, and a
// process that has ended has no memory.
class ProcessMemory {
 public:
  ProcessMemory(int64_t pid, int peer) : pid_(pid), peer_(peer) {}

  // Whether the system lets anybody copy what lies at these addresses of the process.
  bool HasPages(const std::vector<const void*>& addresses) const;

  void Fetch(const std::vector<RemoteBytes>& parts) const;
  void Store(const std::vector<RemoteBytes>& parts) const;

 private:
  template <typename Call>
  void ForEachBatch(const std::vector<RemoteBytes>& parts, Call call) const;

  int64_t pid_;
  int peer_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_PROCESS_MEMORY_H_
