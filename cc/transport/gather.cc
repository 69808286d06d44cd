#include "cc/transport/gather.h"

#include <algorithm>

#include "cc/transport/peer_bytes.h"

namespace adasum {
namespace {

// Bytes of the piece that begins at `done`; none behind the end.
int64_t PieceAt(int64_t done, int64_t length) {
  return std::clamp(length - done, int64_t{0}, kOwnBytes);
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
    if (their_length < 0 || their_length > kLongestText) {
      RefuseBytes(transport.WorldRank(from),
                  "a text of at most " + std::to_string(kLongestText) + " bytes",
                  std::to_string(their_length));
    }
    // In pieces: the texts are gone where a piece is given up. Memory is taken as they come, and
    // not for what a length alone says.
    for (int64_t done = 0; done < std::max(length, their_length); done += kOwnBytes) {
      texts[from].resize(std::min(done + kOwnBytes, their_length));
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
  for (const std::string& joined : GatherTexts(transport, JoinTexts(mine))) {
    lists.push_back(SplitTexts(joined, transport.WorldRank(static_cast<int>(lists.size()))));
  }
  return lists;
}

}  // namespace adasum
