#include "cc/collectives/left_out.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace adasum {

void GatherBytes(Transport& transport, GatheredBytes* bytes) {
  const int rank = transport.rank(), size = transport.size();
  const int64_t length = static_cast<int64_t>(bytes->own.size());
  bytes->rotated.resize(size * length);
  bytes->all.resize(size * length);
  std::copy(bytes->own.begin(), bytes->own.end(), bytes->rotated.begin());
  // Before a round of distance d this rank has those of the d ranks from itself on.
  for (int distance = 1; length > 0 && distance < size; distance *= 2) {
    const int64_t num_bytes = std::min(distance, size - distance) * length;
    transport.SendRecv(
        {(rank - distance + size) % size, bytes->rotated.data(), num_bytes},
        {(rank + distance) % size, bytes->rotated.data() + distance * length, num_bytes});
  }
  for (int i = 0; i < size; ++i) {
    const auto from = bytes->rotated.begin() + i * length;
    std::copy(from, from + length, bytes->all.begin() + (rank + i) % size * length);
  }
}

std::vector<Told> Told::Gather(Transport& transport, GatheredBytes* messages) const {
  messages->own = bytes_;
  GatherBytes(transport, messages);
  std::vector<Told> all(transport.size(), *this);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto begin = messages->all.begin() + rank * bytes_.size();
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
