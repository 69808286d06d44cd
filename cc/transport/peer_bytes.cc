#include "cc/transport/peer_bytes.h"

#include <charconv>
#include <cstring>

#include "cc/core/error.h"

namespace adasum {
namespace {

// Enough of what came to recognise it.
std::string Beginning(const std::string& bytes) {
  constexpr size_t kMostShown = 40;
  std::string shown;
  for (char byte : bytes.substr(0, kMostShown)) {
    shown += byte >= ' ' && byte <= '~' ? byte : '?';
  }
  return "'" + shown + (bytes.size() > kMostShown ? "...'" : "'");
}

}  // namespace

void RefuseBytes(int peer, const std::string& expected, const std::string& received) {
  throw Error(ErrorCode::kInternal, "Expected " + expected + " from rank " + std::to_string(peer) +
                                        ". Received: " + received +
                                        ". Run the same build of tf_adasum on all ranks.");
}

std::string JoinTexts(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += std::to_string(text.size()) + ':' + text;
  return joined;
}

std::vector<std::string> SplitTexts(const std::string& joined, int peer) {
  std::vector<std::string> texts;
  for (size_t position = 0; position < joined.size();) {
    const size_t colon = joined.find(':', position);
    if (colon == std::string::npos) {
      RefuseBytes(peer, "a text with its length ahead", Beginning(joined.substr(position)));
    }
    const int64_t left = static_cast<int64_t>(joined.size() - colon - 1);
    const std::string written = joined.substr(position, colon - position);
    const int64_t length = ParseNumber(written, 0, left, peer);
    texts.push_back(joined.substr(colon + 1, length));
    position = colon + 1 + length;
  }
  return texts;
}

int64_t ParseNumber(const std::string& text, int64_t least, int64_t most, int peer) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < least || number > most) {
    RefuseBytes(peer, "a number from " + std::to_string(least) + " to " + std::to_string(most),
                Beginning(text));
  }
  return number;
}

int64_t NumberReader::Next(int64_t least, int64_t most) {
  int64_t number;
  if (bytes_.size() < sizeof(number) || position_ > bytes_.size() - sizeof(number)) {
    RefuseBytes(peer_, "another number of 8 bytes",
                std::to_string(bytes_.size() - position_) + " bytes");
  }
  std::memcpy(&number, bytes_.data() + position_, sizeof(number));
  position_ += sizeof(number);
  if (number < least || number > most) {
    RefuseBytes(peer_, "a number from " + std::to_string(least) + " to " + std::to_string(most),
                std::to_string(number));
  }
  return number;
}

}  // namespace adasum
