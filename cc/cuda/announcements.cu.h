// Which of a stream's work the exchanges to come have to wait for.
#ifndef ADASUM_CUDA_ANNOUNCEMENTS_CU_H_
#define ADASUM_CUDA_ANNOUNCEMENTS_CU_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "cc/cuda/resources.cu.h"

namespace adasum {

// Points in one stream, each for some exchanges, in the order in which these will be made. Events
// are used again. One thread at a time.
class Announcements {
 public:
  explicit Announcements(const Stream* stream) : stream_(stream) {}

  // The next so many exchanges need to wait for what is in the stream now, and for no more.
  void Add(int64_t num_exchanges) {
    if (num_exchanges == 0) return;
    waiting_.push_back({Recorded(), num_exchanges});
  }

  // What the exchange that is made now waits for: where it was announced; if it was not, all that
  // is in the stream. Stays valid until the next call.
  const Event& Take() {
    if (waiting_.empty()) return Keep(Recorded());
    Announced& first = waiting_.front();
    if (first.event != nullptr) Keep(std::move(first.event));
    if (--first.num_exchanges == 0) waiting_.pop_front();
    return *taken_;
  }

  // Forgets what a request that failed has announced.
  void Clear() { waiting_.clear(); }

 private:
  struct Announced {
    std::unique_ptr<Event> event;  // null behind its first exchange: that keeps it for the others
    int64_t num_exchanges;
  };

  std::unique_ptr<Event> Recorded() {
    std::unique_ptr<Event> event;
    if (free_.empty()) {
      event = std::make_unique<Event>();
    } else {
      event = std::move(free_.back());
      free_.pop_back();
    }
    event->Record(stream_->get());
    return event;
  }

  const Event& Keep(std::unique_ptr<Event> event) {
    if (taken_ != nullptr) free_.push_back(std::move(taken_));
    taken_ = std::move(event);
    return *taken_;
  }

  const Stream* stream_;
  std::deque<Announced> waiting_;
  std::unique_ptr<Event> taken_;
  std::vector<std::unique_ptr<Event>> free_;
};

}  // namespace adasum

#endif  // ADASUM_CUDA_ANNOUNCEMENTS_CU_H_
