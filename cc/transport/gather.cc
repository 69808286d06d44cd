#include "cc/transport/gather.h"

#include <algorithm>

namespace adasum {
namespace {

// Bytes of the piece that begins at `done`; none behind the end.
int64_t PieceAt(int64_t done, int64_t length) {
  return std::clamp(length - done, int64_t{0}, kOwnBytes);
}

// Each text with its length ahead.
std::string Join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += std::to_string(text.size()) + ':' + text;
  return joined;
}

std::vector<std::string> Split(const std::string& joined) {
  std::vector<std::string> texts;
  for (size_t position = 0; position < joined.size();) {
    const size_t colon = joined.find(':', position);
    const size_t length = std::stoull(joined.substr(position, colon - position));
    texts.push_back(joined.substr(colon + 1, length));
    position = colon + 1 + length;
  }
  return texts;
}

}  // namespace

std::vector<std::string> GatherTexts(Transport& transport, const std::string& mine) {
  int rank = transport.rank(), size = transport.size();
  std::vector<std::string> texts(size);
  texts[rank] = mine;
  int64_t length = static_cast<int64_t>(mine.size());
  for (int distance = 1; distance < size; ++distance) {
    int to = (rank + distance) % size;
    int from = (rank - distance + size) % size;
    int64_t their_length = 0;
    transport.SendRecv({to, &length, sizeof(length)}, {from, &their_length, sizeof(their_length)});
    texts[from].resize(their_length);
    // In pieces: the texts are gone where a piece is given up.
    for (int64_t done = 0; done < std::max(length, their_length); done += kOwnBytes) {
      transport.SendRecv(
          {to, mine.data() + std::min(done, length), PieceAt(done, length)},
          {from, texts[from].data() + std::min(done, their_length), PieceAt(done, their_length)});
    }
  }
  return texts;
}

std::vector<std::vector<std::string>> GatherLists(Transport& transport,
                                                  const std::vector<std::string>& mine) {
  std::vector<std::vector<std::string>> lists;
  for (const std::string& joined : GatherTexts(transport, Join(mine))) {
    lists.push_back(Split(joined));
  }
  return lists;
}

}  // namespace adasum
