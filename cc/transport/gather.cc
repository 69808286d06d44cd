#include "cc/transport/gather.h"

namespace adasum {

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
    transport.SendRecv({to, mine.data(), length}, {from, texts[from].data(), their_length});
  }
  return texts;
}

}  // namespace adasum
