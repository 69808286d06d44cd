#include "cc/communicator/leaves.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace adasum {

void ForEachReplica(int num_replicas, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  auto guarded = [&](int replica) {
    try {
      body(replica);
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex);
      if (!first) first = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int replica = 1; replica < num_replicas; ++replica) threads.emplace_back(guarded, replica);
  guarded(0);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace adasum
