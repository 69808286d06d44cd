#include "tests/cc/hostile_peers.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cc/bootstrap/members.h"
#include "cc/collectives/allgather.h"
#include "cc/collectives/alltoall.h"
#include "cc/collectives/sparse_allreduce.h"
#include "cc/core/backoff.h"
#include "cc/core/error.h"
#include "cc/core/transport.h"
#include "cc/engine/negotiation.h"
#include "cc/engine/topology.h"

namespace adasum {
namespace test {
namespace {

constexpr int kSize = 3;
// More than a lie about rows is worth; a user has memory for more.
constexpr int64_t kMostBytes = int64_t{1} << 20;

// What is received is what the bytes say; the end of them is the peers' end.
class HostileTransport : public Transport {
 public:
  HostileTransport(const uint8_t* bytes, size_t num_bytes)
      : next_(bytes), end_(bytes + num_bytes) {}
  int rank() const override { return 0; }
  int size() const override { return kSize; }
  // As of a group, whose table is read behind its end by a number that there is not.
  int WorldRank(int peer) const override { return std::vector<int>{4, 2, 7}.at(peer); }
  void SendRecv(const Send&, const Recv& recv) override {
    if (recv.num_bytes > end_ - next_) throw Error(ErrorCode::kUnavailable, "The peers ended.");
    if (recv.num_bytes > 0) std::memcpy(recv.bytes, next_, recv.num_bytes);
    next_ += recv.num_bytes;
  }

 private:
  const uint8_t* next_;
  const uint8_t* const end_;
};

void CarryOut(const Request& request, Transport& transport) {
  Topology topology;
  topology.hosts = {{0}, {1}, {2}};
  topology.local_size = 1;
  topology.cores = 1;
  WaitControl waits;
  std::unique_ptr<RequestState> state;
  std::function<Request()> passive;
  RequestContext context{transport, transport, topology, waits, nullptr, state, passive};
  request.run(context);
}

void Negotiate(Transport& transport) {
  const WaitControl waits;
  Negotiation negotiation(waits);
  const std::vector<RequestKey> pending{{"a", "sum of 1"}, {"b", "sum of 2"}};
  // As the communication thread: as long as the ranks have nothing in common.
  for (int round = 0; round < 3; ++round) {
    const Decision decision =
        negotiation.Decide(transport, pending[0], {}, [&] { return pending; });
    if (decision.kind != Decision::Kind::kLookAgain) return;
  }
}

void Meet(Transport& transport) {
  const Member self = ThisMember(0, 0, 0, 0, {});
  const std::vector<Member> members = GatherMembers(transport, self);
  CheckMembers(members);
  TopologyOf(members, 0);
  HostsOf(members);
}

std::vector<char> Room(int64_t num_bytes) {
  if (num_bytes < 0 || num_bytes > kMostBytes) {
    throw Error(ErrorCode::kResourceExhausted, "no memory.");
  }
  return std::vector<char>(num_bytes);
}

void Gather(Transport& transport) {
  const std::vector<int32_t> rows{1, 2};
  std::vector<std::vector<char>> rooms;
  auto allocate = [&](const std::vector<GatheredRows>& gathered) {
    std::vector<void*> outputs;
    for (const GatheredRows& of_tensor : gathered) {
      rooms.push_back(Room(std::min(of_tensor.num_rows, kMostBytes) * 4));
      outputs.push_back(rooms.back().data());
    }
    return outputs;
  };
  const std::vector<RowTensor> inputs(2, {"int32 rows", rows.data(), 2, 4});
  CarryOut(AllgatherRequest({"gather", inputs, allocate}), transport);
}

void Deal(Transport& transport) {
  const std::vector<int32_t> rows{1, 2, 3};
  std::vector<char> room;
  auto allocate = [&](const std::vector<int64_t>& received) {
    int64_t total = 0;
    for (int64_t count : received) total += std::min(count, kMostBytes);
    room = Room(total * 4);
    return std::vector<void*>{room.data()};
  };
  CarryOut(AlltoallRequest({"deal", {{"int32 rows", rows.data(), 3, 4}}, {}, allocate}), transport);
}

void ReduceRows(Transport& transport) {
  const std::vector<int64_t> indices{1, 5, 40};
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  std::vector<int64_t> result_indices;
  std::vector<char> result;
  auto allocate = [&](const std::vector<int64_t>& num_rows) {
    result_indices.resize(Room(std::min(num_rows[0], kMostBytes) * 8).size() / 8);
    result = Room(num_rows[0] * 8);
    return std::vector<ReducedRows>{{result_indices.data(), result.data()}};
  };
  const SparseTensor tensor{
      "rows of [2] out of 50", 50, 2, {{indices.data(), values.data(), 3, ""}}};
  const Request request =
      SparseAllreduceRequest({"rows", "adasum", DType::kFloat32, {tensor}, allocate});
  CarryOut(request, transport);
}

}  // namespace

void MeetHostilePeers(const uint8_t* bytes, size_t num_bytes) {
  constexpr void (*kSteps[])(Transport&) = {Negotiate, Meet, Gather, Deal, ReduceRows};
  if (num_bytes == 0) return;
  HostileTransport transport(bytes + 1, num_bytes - 1);
  try {
    kSteps[bytes[0] % (sizeof(kSteps) / sizeof(kSteps[0]))](transport);
  } catch (const Error&) {
    // What a rank hears of a peer that it can't understand.
  }
}

}  // namespace test
}  // namespace adasum
