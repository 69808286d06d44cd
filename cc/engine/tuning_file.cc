#include "cc/engine/tuning_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>
#include <vector>

#include "cc/core/transport.h"

namespace adasum {
namespace {

// Of "chunk_bytes packed_chunks kind of host".
struct Line {
  std::string tuning, host_kind;
};

std::vector<Line> LinesOf(const std::string& path) {
  std::vector<Line> lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    const size_t second = text.find(' ', text.find(' ') + 1);
    if (second == std::string::npos) continue;
    lines.push_back({text.substr(0, second), text.substr(second + 1)});
  }
  return lines;
}

void MakeFolders(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0777);  // fails where it is there
  }
}

}  // namespace

std::string TextOf(const Tuning& tuning) {
  return std::to_string(tuning.chunk_bytes) + " " + std::to_string(tuning.packed_chunks);
}

std::optional<Tuning> ParseTuning(const std::string& text) {
  constexpr int64_t kMostPacked = 1024;
  Tuning tuning;
  char rest = 0;
  long long chunk = 0, packed = 0;
  if (std::sscanf(text.c_str(), "%lld %lld%c", &chunk, &packed, &rest) != 2) return std::nullopt;
  tuning.chunk_bytes = chunk;
  tuning.packed_chunks = packed;
  const bool is_sound = 0 < chunk && chunk <= kMessageBytes && chunk % Tuning::kChunkUnit == 0;
  if (!is_sound || packed < 1 || packed > kMostPacked) return std::nullopt;
  return tuning;
}

std::string TuningFile::Find(const std::string& host_kind) const {
  for (const Line& line : LinesOf(path_)) {
    const bool is_right = line.host_kind == host_kind || line.host_kind == "any host";
    if (is_right && ParseTuning(line.tuning)) return line.tuning;
  }
  return "";
}

bool TuningFile::Keep(const std::string& host_kind, const Tuning& tuning) const {
  if (path_.empty()) return false;
  MakeFolders(path_);
  std::ostringstream text;
  for (const Line& line : LinesOf(path_)) {
    if (line.host_kind != host_kind) text << line.tuning << " " << line.host_kind << "\n";
  }
  text << TextOf(tuning) << " " << host_kind << "\n";
  // Two jobs that end their measurements at once each write a whole file, of which one stays.
  // The number alone would not do: containers that share the folder number their processes alike.
  const std::string temporary =
      path_ + "." + std::to_string(getpid()) + "." + std::to_string(std::random_device{}());
  std::ofstream file(temporary);
  file << text.str();
  file.close();
  if (file && std::rename(temporary.c_str(), path_.c_str()) == 0) return true;
  unlink(temporary.c_str());
  return false;
}

}  // namespace adasum
