#include "cc/bootstrap/start_limit.h"

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <sstream>

#include "cc/core/counted_time.h"
#include "cc/core/error.h"
#include "cc/core/threads.h"
#include "cc/engine/communicator_options.h"

namespace adasum {
namespace {

constexpr auto kLook = std::chrono::milliseconds(200);
constexpr char kThreadName[] = "adasum_start";  // at most 15 characters

double SilenceSeconds() {
  try {
    return CommunicatorOptions::FromEnvironment().timeouts.silence_seconds;
  } catch (const Error&) {
    // The world refuses the settings of a rank on all ranks, once they have found each other.
    return Timeouts().silence_seconds;
  }
}

}  // namespace

StartLimit::StartLimit(const std::string& rank)
    : seconds_(SilenceSeconds()),
      thread_(StartThread("the time limit of MPI's start", [this, rank] { Watch(rank); })) {}

void StartLimit::Close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StartLimit::Watch(const std::string& rank) {
  pthread_setname_np(pthread_self(), kThreadName);
  std::unique_lock<std::mutex> lock(mutex_);
  CountedTime time(CountedTime::Clock::now());
  while (Seconds(time.At(CountedTime::Clock::now())) < seconds_) {
    if (changed_.wait_for(lock, kLook, [this] { return is_over_; })) return;
  }
  std::ostringstream text;
  text << "tf_adasum: rank " << rank
       << ": Expected all ranks to start MPI, as AdasumStrategy() and "
       << "adasum.world() do, within " << seconds_ << " s (TF_ADASUM_TIMEOUT_SECONDS). Received: "
       << "not all of them came; one has stopped or does something else. This rank ends\n";
  std::cerr << text.str() << std::flush;
  _exit(1);
}

}  // namespace adasum
