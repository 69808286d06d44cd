// What happened when, for people to look at in Perfetto (Chrome's trace format).
#ifndef ADASUM_CORE_TIMELINE_H_
#define ADASUM_CORE_TIMELINE_H_

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace adasum {

// The events of one communicator in one process. Any thread may add to it.
class Timeline {
 public:
  using Clock = std::chrono::steady_clock;

  // `rank` becomes the trace's process id and `lane` its thread id. `path` is written every second
  // or so, so that a process that is killed leaves what it had: whole lines of JSON, of which only
  // the end is missing until Close.
  Timeline(std::string path, int rank, int lane);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // An interval that ends now. `peer` is -1 and `num_bytes` 0 where they mean nothing, and so is
  // `encoded_bytes`, what they take in a code.
  void Add(const std::string& name, Clock::time_point begin, int peer, int64_t num_bytes,
           int64_t encoded_bytes = 0);

  // Ends the file; what is added later is lost.
  void Close();

 private:
  struct Event {
    std::string name;
    Clock::time_point begin;
    Clock::time_point end;
    int peer;
    int64_t num_bytes;
    int64_t encoded_bytes;
  };
  // Both under mutex_.
  void Flush();
  void Write(const std::string& lines);

  const std::string path_;
  const int rank_;
  const int lane_;
  // Both read at the start: steady times of different hosts meet through the wall clock.
  const Clock::time_point steady_start_;
  const std::chrono::system_clock::time_point wall_start_;
  std::mutex mutex_;
  int file_ = -1;              // -1 once closed
  std::vector<Event> events_;  // not written yet
  Clock::time_point flushed_;
  int64_t num_written_ = 0;
  int64_t num_dropped_ = 0;
};

// Adds an interval from its construction to its destruction; does nothing without a timeline.
class TimelineSpan {
 public:
  TimelineSpan(Timeline* timeline, const char* name, int peer = -1, int64_t num_bytes = 0,
               int64_t encoded_bytes = 0)
      : timeline_(timeline),
        name_(name),
        peer_(peer),
        num_bytes_(num_bytes),
        encoded_bytes_(encoded_bytes) {
    if (timeline_ != nullptr) begin_ = Timeline::Clock::now();
  }
  ~TimelineSpan() {
    if (timeline_ != nullptr) timeline_->Add(name_, begin_, peer_, num_bytes_, encoded_bytes_);
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  Timeline* timeline_;
  const char* name_;
  int peer_;
  int64_t num_bytes_;
  int64_t encoded_bytes_;
  Timeline::Clock::time_point begin_;
};

}  // namespace adasum

#endif  // ADASUM_CORE_TIMELINE_H_
