#include "cc/collectives/left_out.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace adasum {

void GatherBytes(Transport& transport, const std::vector<char>& mine, std::vector<char>* all) {
  const int rank = transport.rank(), size = transport.size();
  const int64_t num_bytes = static_cast<int64_t>(mine.size());
  all->resize(size * num_bytes);
  std::copy(mine.begin(), mine.end(), all->begin() + rank * num_bytes);
  if (num_bytes == 0) return;
  for (int distance = 1; distance < size; ++distance) {
    const int to = (rank + distance) % size, from = (rank - distance + size) % size;
    transport.SendRecv({to, mine.data(), num_bytes},
                       {from, all->data() + from * num_bytes, num_bytes});
  }
}

std::vector<Told> Told::Gather(Transport& transport, std::vector<char>* theirs) const {
  GatherBytes(transport, bytes_, theirs);
  std::vector<Told> all(transport.size(), *this);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto begin = theirs->begin() + rank * bytes_.size();
    std::copy(begin, begin + bytes_.size(), all[rank].bytes_.begin());
  }
  return all;
}

std::vector<bool> ChooseLeftOut(std::vector<Missing>& missing, int64_t most,
                                const std::function<void(std::vector<Missing>&)>& find_norms) {
  int64_t num_elements = 0;
  for (const Missing& each : missing) num_elements += each.num_elements;
  std::vector<bool> is_left_out(missing.size(), num_elements <= most);
  if (num_elements <= most) return is_left_out;
  find_norms(missing);
  std::vector<size_t> order(missing.size());
  std::iota(order.begin(), order.end(), 0);
  const auto norm2 = [&](size_t i) {
    return std::isnan(missing[i].norm2) ? INFINITY : missing[i].norm2;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return norm2(a) < norm2(b); });
  for (size_t i : order) {
    if (missing[i].num_elements > most || std::isinf(norm2(i))) continue;
    most -= missing[i].num_elements;
    is_left_out[i] = true;
  }
  return is_left_out;
}

}  // namespace adasum
