#include "cc/cuda/peer_paths.cu.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>

#include "cc/algorithms/schedule.h"

namespace adasum {

uint64_t RandomToken() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device() | 1;
}

namespace {

// Tells this process from others of any host; a process id is one of its namespace only.
uint64_t ProcessToken() {
  static const uint64_t token = RandomToken();
  return token;
}

template <size_t kSize>
void Write(const std::string& text, char (&to)[kSize]) {
  std::memset(to, 0, kSize);
  text.copy(to, kSize - 1);
}

// What the kernel calls itself since it was started: equal in all containers of a host. Empty where
// it can't be read.
std::string BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

// Lets this device read that one by itself. Copies find a way without it, so that it may fail.
void EnablePeerAccess(int from, int to) {
  int can = 0;
  const bool is_asked = cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess;
  const bool is_enabled = is_asked && can && cudaDeviceEnablePeerAccess(to, 0) == cudaSuccess;
  if (!is_enabled) cudaGetLastError();  // it may be enabled already
}

}  // namespace

// Long enough that a kernel's launch, a few microseconds, is little beside a chunk on its way, and
// short enough that buckets of the usual 25 MiB have several.
constexpr int64_t kDeviceChunkBytes = int64_t{4} << 20;

int64_t PeerPath::ChunkBytes() const {
  if (wanted_chunk_bytes > 0) return wanted_chunk_bytes;
  const bool is_read_in_place = is_same_device && (kind == kThisProcess || kind == kIpc);
  return is_read_in_place ? kMessageBytes : kDeviceChunkBytes;
}

// Whether the two know each other.
struct PeerPaths::Hello {
  uint64_t own;
  uint64_t known;
};

// What a leaf says of itself to a peer that it does not know. Plain bytes.
struct PeerPaths::Description {
  uint64_t token;  // also at the start of its exported memory
  uint64_t process;
  char boot_id[40];
  char bus_id[16];   // of the device, among those of the host
  int32_t device;    // the same, as this process counts
  int32_t has_wire;  // that takes device memory
  int64_t wanted_chunk_bytes;
  int32_t is_exported;
  cudaIpcMemHandle_t buffer;
};

PeerPaths::PeerPaths(const Stream* stream, const WaitControl* waits, const CudaOptions& options)
    : token_(RandomToken()), options_(options), stream_(stream), waits_(waits) {}

void PeerPaths::Agree(Transport& wire, ExportedBuffer* buffer) {
  // In the order of the schedule, so that pairs wait for each other in no circle.
  const Schedule schedule = MakeSchedule(wire.rank(), wire.size(), 1);
  if (schedule.fold != Fold::kNone) AgreeWith(schedule.fold_peer, wire, buffer);
  for (const Level& level : schedule.levels) AgreeWith(level.peer, wire, buffer);
}

void PeerPaths::AgreeWith(int peer, Transport& wire, ExportedBuffer* buffer) {
  PeerPath& path = paths_[peer];
  const Hello hello{token_, path.agreed_with};
  Hello heard{};
  wire.SendRecv({peer, &hello, sizeof(hello)}, {peer, &heard, sizeof(heard)});
  // The same on both sides. Not so where either has moved to another device since.
  if (heard.own == path.agreed_with && heard.known == token_) return;
  const Description mine = Describe(buffer, wire, peer);
  Description theirs{};
  wire.SendRecv({peer, &mine, sizeof(mine)}, {peer, &theirs, sizeof(theirs)});
  const int32_t found = Try(mine, theirs, wire.WorldRank(wire.rank()));
  int32_t they_found = PeerPath::kStaged;
  wire.SendRecv({peer, &found, sizeof(found)}, {peer, &they_found, sizeof(they_found)});
  path.kind = found == they_found ? static_cast<PeerPath::Kind>(found) : PeerPath::kStaged;
  // The shorter of the two, but for none.
  path.wanted_chunk_bytes = std::min(mine.wanted_chunk_bytes, theirs.wanted_chunk_bytes);
  if (path.wanted_chunk_bytes == 0) {
    path.wanted_chunk_bytes = std::max(mine.wanted_chunk_bytes, theirs.wanted_chunk_bytes);
  }
  path.is_same_device = std::strcmp(mine.bus_id, theirs.bus_id) == 0;
  path.agreed_with = theirs.token;
}

PeerPaths::Description PeerPaths::Describe(ExportedBuffer* buffer, const Transport& wire,
                                           int peer) {
  Description mine{};
  mine.token = token_;
  mine.process = ProcessToken();
  Write(BootId(), mine.boot_id);
  CheckCuda(cudaGetDevice(&mine.device), "cudaGetDevice");
  CheckCuda(cudaDeviceGetPCIBusId(mine.bus_id, sizeof(mine.bus_id), mine.device),
            "cudaDeviceGetPCIBusId");
  mine.wanted_chunk_bytes = options_.chunk_bytes;
  mine.has_wire = wire.TakesDeviceMemory(peer);
  if (!options_.ipc) return mine;
  // The peer waits for an answer already: what fails here makes the two stage, and where the
  // device itself is in trouble that will show then.
  try {
    uint64_t* probe = static_cast<uint64_t*>(probe_.Get(sizeof(token_)));
    *probe = token_;
    Move(buffer->Get(sizeof(token_)), probe, cudaMemcpyHostToDevice, wire.WorldRank(wire.rank()));
    mine.is_exported = buffer->has_handle();
    mine.buffer = buffer->handle();
  } catch (const Error&) {
    mine.is_exported = 0;
  }
  return mine;
}

PeerPath::Kind PeerPaths::Try(const Description& mine, const Description& theirs, int rank) {
  if (theirs.process == mine.process && options_.ipc) {
    if (theirs.device != mine.device) EnablePeerAccess(mine.device, theirs.device);
    return PeerPath::kThisProcess;
  }
  const bool is_same_host = mine.boot_id[0] != 0 && std::strcmp(mine.boot_id, theirs.boot_id) == 0;
  const bool is_exported = mine.is_exported && theirs.is_exported;
  if (is_same_host && is_exported && CanRead(theirs, rank)) return PeerPath::kIpc;
  return mine.has_wire && theirs.has_wire ? PeerPath::kWire : PeerPath::kStaged;
}

// Tried rather than derived: whether a handle can be opened depends on drivers, containers, links
// and settings that no attribute names.
bool PeerPaths::CanRead(const Description& theirs, int rank) {
  try {
    const IpcMapping mapping(theirs.buffer);
    uint64_t* probe = static_cast<uint64_t*>(probe_.Get(sizeof(token_)));
    *probe = 0;
    Move(probe, mapping.base(), cudaMemcpyDeviceToHost, rank);
    return *probe == theirs.token;
  } catch (const Error&) {
    return false;
  }
}

void PeerPaths::Move(void* to, const void* from, cudaMemcpyKind direction, int rank) {
  CheckCuda(cudaMemcpyAsync(to, from, sizeof(token_), direction, stream_->get()),
            "cudaMemcpyAsync");
  probed_.Record(stream_->get());
  probed_.Await(*waits_, rank);
}

const PeerPath& PeerPaths::To(int peer) const {
  const auto found = paths_.find(peer);
  if (found != paths_.end()) return found->second;
  throw Error(ErrorCode::kInternal,
              "Expected to exchange device memory with a peer of the "
              "schedule. Received: rank " +
                  std::to_string(peer));
}

bool PeerPaths::Any(PeerPath::Kind kind) const {
  for (const auto& [peer, path] : paths_) {
    if (path.kind == kind) return true;
  }
  return false;
}

}  // namespace adasum
