// Memory of chunks, kept from call to call.
#ifndef ADASUM_COLLECTIVES_CHUNK_MEMORY_H_
#define ADASUM_COLLECTIVES_CHUNK_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <new>
#include <vector>

namespace adasum {

using Chunk = std::shared_ptr<char>;

// Of one thread. Chunks may outlive it.
class ChunkMemory {
 public:
  // The chunk goes back here when nobody holds it.
  Chunk Take(int64_t num_bytes) {
    std::vector<Block>& free = (*free_)[num_bytes];
    Block block;
    if (free.empty()) {
      block.reset(static_cast<char*>(::operator new(num_bytes, kAligned)));
    } else {
      block = std::move(free.back());
      free.pop_back();
    }
    return Chunk(block.release(), [free = free_, num_bytes](char* bytes) {
      (*free)[num_bytes].emplace_back(bytes);
    });
  }

 private:
  static constexpr std::align_val_t kAligned{64};
  struct Delete {
    void operator()(char* bytes) const { ::operator delete(bytes, kAligned); }
  };
  using Block = std::unique_ptr<char, Delete>;

  std::shared_ptr<std::map<int64_t, std::vector<Block>>> free_ =
      std::make_shared<std::map<int64_t, std::vector<Block>>>();
};

}  // namespace adasum

#endif  // ADASUM_COLLECTIVES_CHUNK_MEMORY_H_
