#include "cc/core/timeline.h"

#include <cstdio>
#include <fstream>

namespace adasum {
namespace {

// About 100 MB; what comes later is counted and left out, so that a long run ends well.
constexpr size_t kMaxEvents = 1'000'000;

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
      wall_start_(std::chrono::system_clock::now()) {}

Timeline::~Timeline() {
  try {
    Write();
  } catch (...) {
    std::fprintf(stderr, "tf_adasum: could not write the timeline %s\n", path_.c_str());
  }
}

void Timeline::Add(const std::string& name, Clock::time_point begin, int peer, int64_t num_bytes) {
  auto end = Clock::now();
  std::lock_guard<std::mutex> lock(mutex_);
  if (events_.size() >= kMaxEvents) {
    ++num_dropped_;
  } else {
    events_.push_back({name, begin, end, peer, num_bytes});
  }
}

void Timeline::Write() const {
  std::ofstream out;
  out.exceptions(std::ofstream::failbit | std::ofstream::badbit);
  // Complete or not there at all: renamed when it is whole.
  std::string unfinished = path_ + ".part";
  out.open(unfinished);
  out << std::fixed;
  out.precision(3);
  out << "{\"traceEvents\":[\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" << rank_
      << ",\"args\":{\"name\":\"rank " << rank_ << "\",\"dropped_events\":" << num_dropped_ << "}}";
  double start = Microseconds(wall_start_.time_since_epoch()).count();
  for (const Event& event : events_) {
    out << ",\n{\"ph\":\"X\",\"name\":" << Quoted(event.name) << ",\"pid\":" << rank_
        << ",\"tid\":" << lane_
        << ",\"ts\":" << start + Microseconds(event.begin - steady_start_).count()
        << ",\"dur\":" << Microseconds(event.end - event.begin).count() << ",\"args\":{";
    if (event.peer >= 0) {
      out << "\"peer\":" << event.peer << ",\"distance\":" << (event.peer ^ rank_) << ",";
    }
    out << "\"bytes\":" << event.num_bytes << "}}";
  }
  out << "\n]}\n";
  out.close();
  if (std::rename(unfinished.c_str(), path_.c_str()) != 0) throw std::ios_base::failure("rename");
}

}  // namespace adasum
