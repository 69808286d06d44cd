#include "cc/transport/host_transport.h"

#include <set>

#include "cc/transport/host_ends.h"

namespace adasum {

std::unique_ptr<Transport> HostTransport::Make(std::unique_ptr<MpiTransport> mpi,
                                               const std::vector<std::string>& hosts,
                                               const WaitControl& waits, Wanted wanted) {
  // Every rank comes to the same answer here: no two ranks share a host.
  if (std::set<std::string>(hosts.begin(), hosts.end()).size() == hosts.size()) return mpi;
  std::vector<int> index_on_host(hosts.size(), -1);
  int num_on_host = 0;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    if (hosts[rank] == hosts[mpi->rank()]) index_on_host[rank] = num_on_host++;
  }
  const int most_ends = wanted.memory ? num_on_host : 0;
  std::vector<std::unique_ptr<ShmTransport>> ends;
  try {
    ends = ConnectHostEnds(*mpi, index_on_host,
                           {1, num_on_host, most_ends, wanted.tensors, wanted.cross_memory}, waits);
  } catch (...) {
    mpi->LeaveAfterException();
    throw;
  }
  if (ends.empty()) return mpi;
  return std::unique_ptr<Transport>(
      new HostTransport(std::move(mpi), std::move(ends[0]), std::move(index_on_host), waits));
}

void HostTransport::Await(const Send& send, const Recv& recv, MpiTransport::Memory memory) {
  const Send no_send{0, nullptr, 0};
  const Recv no_recv{0, nullptr, 0};
  bool shared_send = send.num_bytes > 0 && IsShared(send.peer, send.lane);
  bool shared_recv = recv.num_bytes > 0 && IsShared(recv.peer, recv.lane);
  Send local_send = shared_send ? send : no_send;
  Recv local_recv = shared_recv ? recv : no_recv;
  local_send.peer = shared_send ? index_on_host_[send.peer] : 0;
  local_recv.peer = shared_recv ? index_on_host_[recv.peer] : 0;
  ShmTransport::Pending shm(shm_.get(), local_send, local_recv);
  MpiTransport::Pending mpi(mpi_.get(), shared_send ? no_send : send, shared_recv ? no_recv : recv,
                            memory);
  Backoff backoff(waits_, "an exchange", WorldRank(send.peer));
  if (recv.num_bytes > 0) backoff.WatchSender(this, recv.peer);
  // Both at once: one side may go through memory, the other over the network.
  for (bool shm_done = false, mpi_done = false;;) {
    shm_done = shm_done || shm.Progress();
    mpi_done = mpi_done || mpi.Progress();
    if (shm_done && mpi_done) return;
    if (shm.is_received() && mpi.is_received()) backoff.ForgetSender();
    // The part over MPI looks at what it sends once it has received all.
    if (!shm.is_sent() || (!mpi_done && mpi.is_received())) {
      backoff.WatchReceiver(this, send.peer);
    } else {
      backoff.ForgetReceiver();
    }
    !shm_done&& shm.has_moved() ? backoff.Restart() : backoff.Pause();
  }
}

void HostTransport::Conclude(const std::vector<int>& peers, int64_t num_bytes) {
  // What is left in shared memory ends with it.
  std::vector<int> on_other_hosts;
  for (int peer : peers) {
    if (!IsShared(peer, 0)) on_other_hosts.push_back(peer);
  }
  mpi_->Conclude(on_other_hosts, num_bytes);
}

void HostTransport::Post(const Send& send, const Recv& recv) {
  const int peer = send.num_bytes > 0 ? send.peer : recv.peer;
  if (MostPosted(peer) > 0) mpi_->Post(send, recv);
}

const void* HostTransport::Exchange(const Send& send, const Recv& recv) {
  if (mpi_->HasPosted()) return mpi_->Exchange(send, recv);
  // The peers that count; both are on this host, or neither.
  const int to = send.num_bytes > 0 ? send.peer : recv.peer;
  const int from = recv.num_bytes > 0 ? recv.peer : send.peer;
  if (!IsShared(to, send.lane) || !IsShared(from, recv.lane)) {
    Await(send, recv, MpiTransport::Memory::kCallers);
    return recv.bytes;
  }
  return shm_->Exchange({index_on_host_[to], send.bytes, send.num_bytes},
                        {index_on_host_[from], recv.bytes, recv.num_bytes});
}

}  // namespace adasum
