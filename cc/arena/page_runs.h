// Which pages of an arena are taken: runs of neighbouring pages, found by their length.
#ifndef ADASUM_ARENA_PAGE_RUNS_H_
#define ADASUM_ARENA_PAGE_RUNS_H_

#include <cstdint>

namespace adasum {

// Pages have numbers. Every page belongs to one run, which is taken, kept (free, with memory behind
// it, which a next block finds there) or empty (free, without). Two free neighbours of one kind are
// one run. Not thread-safe; takes no memory but its table, since it serves malloc.
class PageRuns {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // What a run is. In the table it stands at the run's first page.
  enum class Kind : uint8_t { kNothing, kTaken, kKept, kEmpty };

  struct Links {
    uint32_t next, previous;
  };
  struct Page {
    Kind kind;
    // Of the run, and of the one that ends before it.
    uint32_t num_pages, pages_before;
    // Among free runs of about this length; among kept runs, the oldest first.
    Links by_length, by_age;
  };

  // The bytes of a table, which has to be zero.
  static int64_t TableBytes(uint32_t num_pages);

  // Pages 0 and the last are never given away: no run has to ask whether it has neighbours.
  void Start(void* table, uint32_t num_pages);

  // Takes so many pages, the first of them a multiple of `alignment` (a power of two); kNone if
  // no run has them. Kept pages come first; `*was_kept` says whether they are.
  uint32_t Take(uint32_t num_pages, uint32_t alignment, bool* was_kept);

  // Of a taken run, by its first page: it becomes free.
  void Keep(uint32_t first);
  void Empty(uint32_t first);

  // Takes the oldest kept run, or the end of it if it is longer than this; kNone if there is none.
  uint32_t TakeOldest(uint32_t most_pages);

  // Whether a taken run begins here.
  bool IsTaken(uint32_t first) const;
  uint32_t NumPages(uint32_t first) const { return pages_[first].num_pages; }

  // Whether all of the above holds; for tests.
  bool IsSound() const;

 private:
  static constexpr int kNumBins = 256;

  // Free runs of one kind, by their length.
  struct Bins {
    uint64_t filled[kNumBins / 64];
    uint32_t first[kNumBins];
  };

  static int BinOf(uint32_t num_pages);
  Bins& BinsOf(Kind kind) { return kind == Kind::kKept ? kept_ : empty_; }

  // A free run of at least so many pages, or kNone.
  uint32_t Find(const Bins& bins, uint32_t num_pages) const;
  // Puts a free run of this kind here, joined with free neighbours of it.
  void Insert(uint32_t first, uint32_t num_pages, Kind kind);
  // Takes a free run out of the lists; it is still marked as free.
  void Remove(uint32_t first);
  void LinkByLength(uint32_t first);
  void UnlinkByLength(uint32_t first);
  // Writes a run into the table.
  void Mark(uint32_t first, uint32_t num_pages, Kind kind);

  Page* pages_ = nullptr;
  uint32_t num_pages_ = 0;
  Bins kept_{}, empty_{};
  uint32_t oldest_ = kNone, newest_ = kNone;
};

}  // namespace adasum

#endif  // ADASUM_ARENA_PAGE_RUNS_H_
