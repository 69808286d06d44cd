// A limit for the start of MPI, which waits for all ranks and knows none.
#ifndef ADASUM_BOOTSTRAP_START_LIMIT_H_
#define ADASUM_BOOTSTRAP_START_LIMIT_H_

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace adasum {

// From its construction to Close() the process starts MPI and finds the other ranks. If that takes
// TF_ADASUM_TIMEOUT_SECONDS, the process says so and ends with exit code 1: a call of MPI can't be
// given up, and a launcher ends the job then.
//
// Its thread has the name that adasumrun/rank_watch.py looks for.
class StartLimit {
 public:
  // `rank` names the process.
  explicit StartLimit(const std::string& rank);
  ~StartLimit() { Close(); }
  StartLimit(const StartLimit&) = delete;
  StartLimit& operator=(const StartLimit&) = delete;

  // The ranks have found each other.
  void Close();

 private:
  void Watch(const std::string& rank);

  double seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;  // uses all of the above
};

}  // namespace adasum

#endif  // ADASUM_BOOTSTRAP_START_LIMIT_H_
