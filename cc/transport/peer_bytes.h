// What a peer has sent, read with all its lengths and counts checked: a rank of another build, or
// with a damaged memory, must end in an error here and not in this rank's memory.
#ifndef ADASUM_TRANSPORT_PEER_BYTES_H_
#define ADASUM_TRANSPORT_PEER_BYTES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace adasum {

// The longest text that ranks tell each other (gather.h), in bytes.
constexpr int64_t kLongestText = int64_t{1} << 30;

// Throws Internal: "Expected `expected` from rank `peer`. Received: `received`. ...". Here and
// below `peer` is its rank in the world.
[[noreturn]] void RefuseBytes(int peer, const std::string& expected, const std::string& received);

// Texts of any bytes in one, each with its length ahead.
std::string JoinTexts(const std::vector<std::string>& texts);
// The reverse. Throws Internal for bytes that JoinTexts does not make.
std::vector<std::string> SplitTexts(const std::string& joined, int peer);

// A whole number from `least` to `most`, as std::to_string writes it. Throws Internal for all else.
int64_t ParseNumber(const std::string& text, int64_t least, int64_t most, int peer);

// Numbers of 8 bytes each, one after the other.
class NumberReader {
 public:
  // The bytes must outlive it.
  NumberReader(const std::string& bytes, size_t begin, int peer)
      : bytes_(bytes), position_(begin), peer_(peer) {}

  // Throws Internal where there is none, or one that is not from `least` to `most`.
  int64_t Next(int64_t least, int64_t most);
  bool is_at_end() const { return position_ == bytes_.size(); }

 private:
  const std::string& bytes_;
  size_t position_;
  const int peer_;
};

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_PEER_BYTES_H_
