#include "cc/arena/page_runs.h"

#include <algorithm>

namespace adasum {
namespace {

// A bin holds lengths that differ by less than an eighth.
constexpr int kStepBits = 3;
// So many runs of the wanted length's own bin are looked at, of which some may be too short.
constexpr int kMostLooks = 16;

}  // namespace

int64_t PageRuns::TableBytes(uint32_t num_pages) { return int64_t{num_pages} * sizeof(Page); }

void PageRuns::Start(void* table, uint32_t num_pages) {
  pages_ = static_cast<Page*>(table);
  num_pages_ = num_pages;
  for (Bins* bins : {&kept_, &empty_}) {
    std::fill_n(bins->filled, kNumBins / 64, 0);
    std::fill_n(bins->first, kNumBins, kNone);
  }
  oldest_ = newest_ = kNone;
  Mark(num_pages - 1, 1, Kind::kTaken);
  Mark(0, 1, Kind::kTaken);
  Insert(1, num_pages - 2, Kind::kEmpty);
}

int PageRuns::BinOf(uint32_t num_pages) {
  if (num_pages < 1u << kStepBits) return num_pages;
  const int log = 31 - __builtin_clz(num_pages);
  const uint32_t step = (num_pages >> (log - kStepBits)) & ((1u << kStepBits) - 1);
  return ((log - kStepBits + 1) << kStepBits) + step;
}

uint32_t PageRuns::Find(const Bins& bins, uint32_t num_pages) const {
  const int own = BinOf(num_pages);
  uint32_t best = kNone;
  uint32_t run = bins.first[own];
  for (int look = 0; look < kMostLooks && run != kNone; ++look) {
    const uint32_t length = pages_[run].num_pages;
    if (length == num_pages) return run;
    if (length > num_pages && (best == kNone || length < pages_[best].num_pages)) best = run;
    run = pages_[run].by_length.next;
  }
  if (best != kNone) return best;
  // All runs of the bins above are long enough.
  for (int bin = own + 1; bin < kNumBins; bin = (bin / 64 + 1) * 64) {
    const uint64_t filled = bins.filled[bin / 64] >> (bin % 64);
    if (filled != 0) return bins.first[bin + __builtin_ctzll(filled)];
  }
  return kNone;
}

uint32_t PageRuns::Take(uint32_t num_pages, uint32_t alignment, bool* was_kept) {
  // Somewhere in so many pages lies an aligned run.
  const uint64_t enough = uint64_t{num_pages} + alignment - 1;
  if (num_pages == 0 || enough > num_pages_) return kNone;
  uint32_t run = Find(kept_, enough);
  *was_kept = run != kNone;
  if (run == kNone) run = Find(empty_, enough);
  if (run == kNone) return kNone;
  const Kind kind = pages_[run].kind;
  const uint32_t end = run + pages_[run].num_pages;
  const uint32_t first = (run + alignment - 1) / alignment * alignment;
  Remove(run);
  Mark(first, num_pages, Kind::kTaken);
  if (first > run) Insert(run, first - run, kind);
  if (end > first + num_pages) Insert(first + num_pages, end - first - num_pages, kind);
  return first;
}

void PageRuns::Keep(uint32_t first) { Insert(first, pages_[first].num_pages, Kind::kKept); }

void PageRuns::Empty(uint32_t first) { Insert(first, pages_[first].num_pages, Kind::kEmpty); }

uint32_t PageRuns::TakeOldest(uint32_t most_pages) {
  if (oldest_ == kNone || most_pages == 0) return kNone;
  const uint32_t run = oldest_;
  const uint32_t length = pages_[run].num_pages;
  if (length <= most_pages) {
    Remove(run);
    Mark(run, length, Kind::kTaken);
    return run;
  }
  // What is left stays the oldest.
  UnlinkByLength(run);
  Mark(run, length - most_pages, Kind::kKept);
  LinkByLength(run);
  Mark(run + length - most_pages, most_pages, Kind::kTaken);
  return run + length - most_pages;
}

bool PageRuns::IsTaken(uint32_t first) const {
  return first > 0 && first < num_pages_ - 1 && pages_[first].kind == Kind::kTaken;
}

void PageRuns::Insert(uint32_t first, uint32_t num_pages, Kind kind) {
  const uint32_t behind = first + num_pages;
  const uint32_t before = first - pages_[first].pages_before;
  if (pages_[behind].kind == kind) {
    num_pages += pages_[behind].num_pages;
    Remove(behind);
    pages_[behind].kind = Kind::kNothing;
  }
  if (pages_[before].kind == kind) {
    num_pages += pages_[before].num_pages;
    Remove(before);
    pages_[first].kind = Kind::kNothing;
    first = before;
  }
  Mark(first, num_pages, kind);
  LinkByLength(first);
  if (kind != Kind::kKept) return;
  pages_[first].by_age = {kNone, newest_};
  (newest_ == kNone ? oldest_ : pages_[newest_].by_age.next) = first;
  newest_ = first;
}

void PageRuns::Remove(uint32_t first) {
  UnlinkByLength(first);
  if (pages_[first].kind != Kind::kKept) return;
  const auto [newer, older] = pages_[first].by_age;
  (older == kNone ? oldest_ : pages_[older].by_age.next) = newer;
  (newer == kNone ? newest_ : pages_[newer].by_age.previous) = older;
}

void PageRuns::LinkByLength(uint32_t first) {
  Page& page = pages_[first];
  Bins& bins = BinsOf(page.kind);
  const int bin = BinOf(page.num_pages);
  page.by_length = {bins.first[bin], kNone};
  if (bins.first[bin] != kNone) pages_[bins.first[bin]].by_length.previous = first;
  bins.first[bin] = first;
  bins.filled[bin / 64] |= uint64_t{1} << (bin % 64);
}

void PageRuns::UnlinkByLength(uint32_t first) {
  const Page& page = pages_[first];
  Bins& bins = BinsOf(page.kind);
  const int bin = BinOf(page.num_pages);
  const auto [next, previous] = page.by_length;
  (previous == kNone ? bins.first[bin] : pages_[previous].by_length.next) = next;
  if (next != kNone) pages_[next].by_length.previous = previous;
  if (bins.first[bin] == kNone) bins.filled[bin / 64] &= ~(uint64_t{1} << (bin % 64));
}

void PageRuns::Mark(uint32_t first, uint32_t num_pages, Kind kind) {
  pages_[first].kind = kind;
  pages_[first].num_pages = num_pages;
  if (first + num_pages < num_pages_) pages_[first + num_pages].pages_before = num_pages;
}

bool PageRuns::IsSound() const {
  uint32_t num_kept = 0;
  for (uint32_t first = 0; first < num_pages_;) {
    const Page& page = pages_[first];
    const uint32_t behind = first + page.num_pages;
    if (page.kind == Kind::kNothing || page.num_pages == 0 || behind > num_pages_) return false;
    if (behind < num_pages_) {
      const Page& next = pages_[behind];
      if (next.pages_before != page.num_pages) return false;
      if (page.kind != Kind::kTaken && page.kind == next.kind) return false;
    }
    num_kept += page.kind == Kind::kKept;
    first = behind;
  }
  for (uint32_t run = oldest_; run != kNone; run = pages_[run].by_age.next) --num_kept;
  return num_kept == 0;
}

}  // namespace adasum
