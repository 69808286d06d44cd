#include "cc/core/timeline.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace adasum {
namespace {

// About 100 MB; what comes later is counted and left out, so that a long run ends well.
constexpr size_t kMaxEvents = 1'000'000;
// What waits to be written is lost when the process is killed, and takes memory.
constexpr auto kFlushEvery = std::chrono::seconds(1);
constexpr size_t kMostWaiting = 10'000;

using Microseconds = std::chrono::duration<double, std::micro>;

std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

Timeline::Timeline(std::string path, int rank, int lane)
    : path_(std::move(path)),
      rank_(rank),
      lane_(lane),
      steady_start_(Clock::now()),
      wall_start_(std::chrono::system_clock::now()),
      flushed_(steady_start_) {
  const std::string id = std::to_string(rank_);
  // Not by C's buffered files: a forked child would write the same once more.
  file_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) std::fprintf(stderr, "tf_adasum: could not write %s\n", path_.c_str());
  Write("{\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" + id +
        ",\"args\":{\"name\":\"rank " + id + "\"}}\n");
}

Timeline::~Timeline() { Close(); }

void Timeline::Add(const std::string& name, Clock::time_point begin, int peer, int64_t num_bytes,
                   int64_t encoded_bytes) {
  auto end = Clock::now();
  std::lock_guard<std::mutex> lock(mutex_);
  if (num_written_ + events_.size() >= kMaxEvents) {
    ++num_dropped_;
  } else {
    events_.push_back({name, begin, end, peer, num_bytes, encoded_bytes});
  }
  if (end - flushed_ > kFlushEvery || events_.size() >= kMostWaiting) Flush();
}

void Timeline::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (file_ < 0) return;
  Flush();
  Write("],\"dropped_events\":" + std::to_string(num_dropped_) + "}\n");
  if (file_ >= 0) close(file_);
  file_ = -1;
}

void Timeline::Flush() {
  flushed_ = Clock::now();
  if (file_ >= 0 && !events_.empty()) {
    const double start = Microseconds(wall_start_.time_since_epoch()).count();
    std::ostringstream out;
    out << std::fixed;
    out.precision(3);
    for (const Event& event : events_) {
      out << ",{\"ph\":\"X\",\"name\":" << Quoted(event.name) << ",\"pid\":" << rank_
          << ",\"tid\":" << lane_
          << ",\"ts\":" << start + Microseconds(event.begin - steady_start_).count()
          << ",\"dur\":" << Microseconds(event.end - event.begin).count() << ",\"args\":{";
      if (event.peer >= 0) {
        out << "\"peer\":" << event.peer << ",";
      }
      if (event.encoded_bytes > 0) {
        out << "\"encoded_bytes\":" << event.encoded_bytes << ",";
      }
      out << "\"bytes\":" << event.num_bytes << "}}\n";
    }
    Write(out.str());
  }
  num_written_ += static_cast<int64_t>(events_.size());
  events_.clear();
}

void Timeline::Write(const std::string& lines) {
  for (size_t written = 0; file_ >= 0 && written < lines.size();) {
    const ssize_t count = write(file_, lines.data() + written, lines.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      std::fprintf(stderr, "tf_adasum: could not write %s: %s\n", path_.c_str(),
                   std::strerror(errno));
      close(file_);
      file_ = -1;
      return;
    }
    written += static_cast<size_t>(count);
  }
}

}  // namespace adasum
