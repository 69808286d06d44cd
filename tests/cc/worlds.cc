#include "tests/cc/worlds.h"

#include <cstring>
#include <deque>
#include <string>
#include <thread>

#include "cc/core/error.h"
#include "cc/transport/shm_transport.h"
#include "cc/transport/thread_transport.h"

namespace adasum {
namespace test {

namespace {

class CopyingTransport : public ThreadTransport {
 public:
  using ThreadTransport::ThreadTransport;
  bool CanRead(int) const override { return false; }
  // Even the shortest vectors in halves.
  int64_t ShortBytes() const override { return 0; }
  const void* Exchange(const Send& send, const Recv& recv) override {
    return Transport::Exchange(send, recv);
  }
};

// Chunks are short, so that short vectors are longer than what is posted.
class PostedTransport : public CopyingTransport {
 public:
  using CopyingTransport::CopyingTransport;
  int64_t ChunkBytes(int) const override { return 8192; }
  int64_t MostPosted(int) const override { return 2; }
  void Post(const Send& send, const Recv& recv) override {
    const char* bytes = static_cast<const char*>(send.bytes);
    posted_.push_back({send, recv, std::string(bytes, send.num_bytes)});
  }
  void SendRecv(const Send& send, const Recv& recv) override {
    if (!posted_.empty()) Breach("no call between what is posted and its exchange");
    CopyingTransport::SendRecv(send, recv);
  }
  const void* Exchange(const Send& send, const Recv& recv) override {
    if (!posted_.empty()) {
      const Posted& next = posted_.front();
      if (send.peer != next.send.peer || send.bytes != next.send.bytes ||
          send.num_bytes != next.send.num_bytes || recv.peer != next.recv.peer ||
          recv.bytes != next.recv.bytes || recv.num_bytes != next.recv.num_bytes) {
        Breach("the exchange that was posted next");
      }
      // Nothing may have no address, which memcmp does not take.
      if (send.num_bytes > 0 && std::memcmp(send.bytes, next.sent.data(), next.sent.size()) != 0) {
        Breach("the bytes that were posted");
      }
      posted_.pop_front();
    }
    CopyingTransport::SendRecv(send, recv);
    return recv.bytes;
  }

 private:
  struct Posted {
    Send send;
    Recv recv;
    std::string sent;
  };

  [[noreturn]] static void Breach(const std::string& expected) {
    throw Error(ErrorCode::kInternal, "Expected " + expected + ". Received: something else.");
  }

  std::deque<Posted> posted_;
};

// Of the shortest vectors some are swapped whole.
class NetworkTransport : public PostedTransport {
 public:
  using PostedTransport::PostedTransport;
  int64_t ShortBytes() const override { return 64; }
};

}  // namespace

const char* WireName(Wire wire) {
  const char* names[] = {"threads",      "copies", "shared memory", "shared tensors",
                         "cross memory", "posted", "network"};
  return names[static_cast<int>(wire)];
}

// The hub's waits belong to no single rank, so that it has timeouts of its own.
class World::Hub {
 public:
  Hub(int size, double silence_seconds) : hub_(size, waits_) {
    waits_.timeouts.silence_seconds = silence_seconds;
  }
  ThreadHub* get() { return &hub_; }

 private:
  WaitControl waits_;
  ThreadHub hub_;
};

World::World(Wire wire, int size, double silence_seconds, double mismatch_seconds) {
  for (int rank = 0; rank < size; ++rank) {
    waits_.push_back(std::make_unique<WaitControl>());
    waits_.back()->timeouts.silence_seconds = silence_seconds;
    waits_.back()->timeouts.mismatch_seconds = mismatch_seconds;
  }
  const bool is_shared =
      wire == Wire::kSharedMemory || wire == Wire::kSharedTensors || wire == Wire::kCrossMemory;
  if (is_shared) {
    ConnectSharedMemory(wire);
    return;
  }
  hub_ = std::make_unique<Hub>(size, silence_seconds);
  for (int rank = 0; rank < size; ++rank) {
    if (wire == Wire::kThreads) {
      transports_.push_back(std::make_unique<ThreadTransport>(hub_->get(), rank));
    } else if (wire == Wire::kPosted) {
      transports_.push_back(std::make_unique<PostedTransport>(hub_->get(), rank));
    } else if (wire == Wire::kNetwork) {
      transports_.push_back(std::make_unique<NetworkTransport>(hub_->get(), rank));
    } else {
      transports_.push_back(std::make_unique<CopyingTransport>(hub_->get(), rank));
    }
  }
}

void World::ConnectSharedMemory(Wire wire) {
  const int size = static_cast<int>(waits_.size());
  std::vector<ShmTransport*> ends;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < size; ++rank) {
    auto end = std::make_unique<ShmTransport>(rank, size, *waits_[rank]);
    ends.push_back(end.get());
    addresses.push_back(end->Address());
    transports_.push_back(std::move(end));
  }
  for (ShmTransport* end : ends) end->Connect(addresses);
  if (wire == Wire::kSharedMemory) return;
  for (ShmTransport* end : ends) {
    if (!end->MapArenas(addresses)) throw Error(ErrorCode::kInternal, "Expected an arena.");
    end->ShareTensors(true);
    if (wire != Wire::kCrossMemory) continue;
    // Of its own memory no process is refused anything.
    if (!end->ReachProcesses(addresses)) throw Error(ErrorCode::kInternal, "Expected a token.");
    end->CopyTensors();
  }
}

World::~World() = default;

void ForEachRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

bool TimesOut(const std::function<void()>& collective) {
  try {
    collective();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeadlineExceeded) throw;
    return true;
  }
  return false;
}

}  // namespace test
}  // namespace adasum
