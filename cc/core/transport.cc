#include "cc/core/transport.h"

#include <algorithm>
#include <numeric>

#include "cc/core/error.h"

namespace adasum {
namespace {

[[noreturn]] void RefuseToStart() {
  throw Error(ErrorCode::kInternal, "This transport's messages come in order.");
}

template <typename Condition>
bool AllPeers(const Transport& transport, Condition condition) {
  for (int peer = 0; peer < transport.size(); ++peer) {
    if (peer != transport.rank() && !condition(peer)) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Transfer> Transport::Start(const Send&) { RefuseToStart(); }
std::unique_ptr<Transfer> Transport::Start(const Recv&) { RefuseToStart(); }

void Transport::PairwiseBarrier(int peer) {
  char mine = 0, theirs = 0;
  SendRecv({peer, &mine, 1}, {peer, &theirs, 1});
}

void Transport::LeaveAfter(const Error& error) {
  if (error.code() != ErrorCode::kDeadlineExceeded) Leave();
}

void Transport::LeaveAfterException() {
  try {
    throw;
  } catch (const Error& error) {
    LeaveAfter(error);
  } catch (...) {
    Leave();
  }
}

void Transport::SwapWithAll(const void*, int64_t, char*, int64_t*) {
  throw Error(ErrorCode::kInternal, "This transport sends to one rank at a time.");
}

void* Transport::Workspace(int64_t) {
  throw Error(ErrorCode::kInternal, "This transport has no workspace of its own.");
}

void* Transport::Located(int, int64_t, int64_t) {
  throw Error(ErrorCode::kInternal, "This transport shares no tensors.");
}

void Transport::Fetch(int, const std::vector<RemoteBytes>&) {
  throw Error(ErrorCode::kInternal, "This transport reaches no other process.");
}

void Transport::Store(int, const std::vector<RemoteBytes>&) {
  throw Error(ErrorCode::kInternal, "This transport reaches no other process.");
}

bool Transport::AnyCanRead(const std::vector<int>& ranks) const {
  // Where only some share memory all require workspaces, and nobody asks.
  return std::any_of(ranks.begin(), ranks.end(),
                     [this](int peer) { return peer != rank() && CanRead(peer); });
}

bool SharesMemory(const Transport& transport, int peer) {
  return transport.requires_workspace() && transport.CanRead(peer);
}

bool AllShareMemory(const Transport& transport) {
  return transport.requires_workspace() &&
         AllPeers(transport, [&](int peer) { return SharesMemory(transport, peer); });
}

bool AllShareTensors(const Transport& transport) {
  return AllPeers(transport, [&](int peer) { return transport.SharesTensors(peer); });
}

bool AllCopyTensors(const Transport& transport) {
  return AllPeers(transport, [&](int peer) { return transport.CopiesTensors(peer); });
}

bool IsNetworkOnly(const Transport& transport) {
  if (transport.requires_workspace() || transport.size() == 1) return false;
  std::vector<int> all(transport.size());
  std::iota(all.begin(), all.end(), 0);
  return !transport.AnyCanRead(all);
}

}  // namespace adasum
