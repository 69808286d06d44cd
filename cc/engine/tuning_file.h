// The file that keeps what was measured (collectives/tuner.h), for the next job on such a host.
#ifndef ADASUM_ENGINE_TUNING_FILE_H_
#define ADASUM_ENGINE_TUNING_FILE_H_

#include <optional>
#include <string>
#include <utility>

#include "cc/core/tuning.h"

namespace adasum {

// One line a measurement: bytes of a chunk, packed chunks, and the kind of host behind them. Users
// who know better write "any host" there; the first line that fits counts.
class TuningFile {
 public:
  explicit TuningFile(std::string path) : path_(std::move(path)) {}

  // "bytes of a chunk, packed chunks" of this kind of host; empty if the file has none, or is no
  // such file.
  std::string Find(const std::string& host_kind) const;

  // In place of what it had for this kind of host. Returns false where the file can't be written:
  // the next job measures again. A reader finds the old file or the new one, whole.
  bool Keep(const std::string& host_kind, const Tuning& tuning) const;

 private:
  const std::string path_;
};

// The texts that a file has and ranks tell each other. Null for other texts than these, and for
// numbers that no measurement chooses.
std::string TextOf(const Tuning& tuning);
std::optional<Tuning> ParseTuning(const std::string& text);

}  // namespace adasum

#endif  // ADASUM_ENGINE_TUNING_FILE_H_
