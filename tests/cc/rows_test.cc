// Collectives of rows: any number on each rank, lack of memory on one, silence, and an end in the
// midst; with one communicator for each rank.

#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "cc/collectives/allgather.h"
#include "cc/collectives/alltoall.h"
#include "cc/collectives/barrier.h"
#include "cc/collectives/reduce_scatter.h"
#include "tests/cc/check.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace {

using test::CheckUsable;
using test::Contains;
using test::Describe;
using test::Ending;
using test::ForEachRank;
using test::ForEachWorld;
using test::Is;
using test::Pending;
using test::Ranks;
using test::Wire;

constexpr double kShortSeconds = 0.2;

RowTensor Rows(const std::vector<int64_t>& values) {
  return {"int64 rows of []", values.data(), static_cast<int64_t>(values.size()), 8};
}

Ending Run(Communicator& communicator, Request request) {
  Pending pending;
  request.done = pending.done();
  communicator.Enqueue(std::move(request));
  return pending.Await();
}

// `num_rows` rows of one number each; they arrive in `out`, or there is no room for them.
Request Gather(const std::vector<int64_t>& mine, std::vector<int64_t>* out, bool has_room = true) {
  return AllgatherRequest({"gather", {Rows(mine)}, [=](const std::vector<GatheredRows>& rows) {
                             if (!has_room) {
                               throw Error(ErrorCode::kResourceExhausted, "No room here.");
                             }
                             out->resize(rows[0].num_rows);
                             return std::vector<void*>{out->data()};
                           }});
}

TEST(RowsFollowTheRanks) {
  ForEachWorld({1, 2, 3, 5, 8}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) {
      // From none to more pieces than there are slots in shared memory.
      for (int64_t scale : {0, 1, 5, 4000, 150000}) {
        const std::vector<int64_t> mine(scale * ((rank + 1) % 3), rank);
        std::vector<int64_t> all, expected;
        for (int r = 0; r < size; ++r) expected.insert(expected.end(), scale * ((r + 1) % 3), r);
        CHECK_EQ(Describe(Run(ranks[rank], Gather(mine, &all))), "");
        CHECK_TRUE(all == expected);
      }
    });
  });
}

TEST(OneRankLacksMemory) {
  ForEachWorld({1, 2, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) {
      const std::vector<int64_t> mine(4, rank);
      std::vector<int64_t> all;
      const Ending ending = Run(ranks[rank], Gather(mine, &all, rank != size - 1));
      CHECK_TRUE(Is(ending, ErrorCode::kResourceExhausted));
      CHECK_TRUE(Contains(Describe(ending), "rank " + std::to_string(size - 1) + ": Expected"));
      CHECK_TRUE(Contains(Describe(ending), "Received: No room here."));
    });
    CheckUsable(ranks, "afterwards");
  });
}

TEST(WhatAllRefuseLeavesThemUsable) {
  ForEachWorld({1, 3}, [](Wire wire, int size) {
    Ranks ranks(wire, size);
    ForEachRank(size, [&](int rank) {
      const std::vector<int64_t> mine(size, rank);
      std::vector<int64_t> splits(size, 1);
      splits[0] += rank == size - 1;  // one more than there are
      const Ending ending =
          Run(ranks[rank], AlltoallRequest({"deal", {Rows(mine)}, splits, nullptr}));
      CHECK_TRUE(Is(ending, ErrorCode::kInvalidArgument));
      CHECK_TRUE(Contains(Describe(ending), "rank " + std::to_string(rank) + ": Expected"));
      CHECK_TRUE(Contains(Describe(ending), "rank " + std::to_string(size - 1) + " passed splits"));
    });
    CheckUsable(ranks, "afterwards");
  });
}

// Every kind of request, as rank 0 of two issues it; what it points to must outlive it.
struct Requests {
  std::vector<int64_t> mine = {1, 2};
  std::vector<int64_t> out = {0, 0};
  std::vector<Request> Make() {
    auto room = [this](const auto&) { return std::vector<void*>{out.data()}; };
    std::vector<Request> requests;
    requests.push_back(AllgatherRequest({"it", {Rows(mine)}, room}));
    requests.push_back(AlltoallRequest({"it", {Rows(mine)}, {}, room}));
    requests.push_back(ReduceScatterRequest(
        {"it", "sum", DType::kInt64, {{"[2]", 2, 1, mine.data(), out.data()}}}));
    requests.push_back(BarrierRequest("it"));
    return requests;
  }
};

TEST(SilentRank) {
  Requests of_rank;
  for (Request& request : of_rank.Make()) {
    Ranks ranks(Wire::kSharedMemory, 2, kShortSeconds);
    const Ending ending = Run(ranks[0], std::move(request));
    CHECK_TRUE(Is(ending, ErrorCode::kDeadlineExceeded));
  }
}

TEST(ClosedWhileItWaits) {
  Requests of_rank;
  for (Request& request : of_rank.Make()) {
    Ranks ranks(Wire::kSharedMemory, 2);
    std::thread closes([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ranks[0].Close();
    });
    const Ending ending = Run(ranks[0], std::move(request));
    closes.join();
    CHECK_TRUE(Is(ending, ErrorCode::kUnavailable));
  }
}

TEST(RowsOfRanks) {
  for (int64_t num_rows : {0, 1, 4, 5, 6, 17}) {
    int64_t next = 0;
    for (int rank = 0; rank < 5; ++rank) {
      const Range rows = RowsOfRank(rank, 5, num_rows);
      CHECK_EQ(rows.begin, next);
      CHECK_EQ(rows.size(), num_rows / 5 + (rank < num_rows % 5));
      next = rows.end;
    }
    CHECK_EQ(next, num_rows);
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
