// The sum over ranks that upload: the values, and the bytes that it takes.

#include "cc/collectives/uploads.h"

#include <atomic>
#include <random>

#include "tests/cc/check.h"
#include "tests/cc/counting_transport.h"
#include "tests/cc/ranks.h"

namespace adasum {
namespace {

using test::CountingTransport;
using test::Describe;
using test::ForEachRank;
using test::Scope;
using test::Wire;
using test::World;

// The communicators of a world whose messages are counted.
class CountedRanks {
 public:
  CountedRanks(Wire wire, int size) : world_(wire, size) {
    for (int rank = 0; rank < size; ++rank) {
      inner_.push_back(world_.TakeTransport(rank));
      auto counting = std::make_unique<CountingTransport>(inner_.back().get());
      counting_.push_back(counting.get());
      communicators_.push_back(
          std::make_unique<Communicator>(world_.TakeWaits(rank), std::move(counting),
                                         Topology{rank, size, 1, {{0}}, WidestInstructionSet()}));
    }
  }
  ~CountedRanks() { communicators_.clear(); }
  CountedRanks(const CountedRanks&) = delete;
  CountedRanks& operator=(const CountedRanks&) = delete;

  Communicator& operator[](int rank) { return *communicators_[rank]; }
  int64_t num_bytes() const {
    int64_t sum = 0;
    for (const CountingTransport* each : counting_) sum += each->num_bytes;
    return sum;
  }
  int64_t num_stored_bytes() const {
    int64_t sum = 0;
    for (const CountingTransport* each : counting_) sum += each->num_stored;
    return sum;
  }

 private:
  World world_;
  std::vector<std::unique_ptr<Transport>> inner_;
  std::vector<CountingTransport*> counting_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

double ValueOf(int rank, size_t i) { return 100.0 * rank + static_cast<double>(i % 7); }

void CheckUploads(Communicator& communicator, const std::vector<bool>& uploads, size_t length) {
  const int rank = communicator.rank();
  std::vector<double> values(length), sums(length, -1);
  for (size_t i = 0; i < length; ++i) values[i] = ValueOf(rank, i);
  int64_t num_uploads = -1;
  UploadTensors tensors;
  tensors.name = "uploads";
  tensors.dtype = DType::kFloat64;
  tensors.shapes = {{static_cast<int64_t>(length)}, {0}};
  tensors.uploads = uploads[rank];
  tensors.inputs = {values.data(), nullptr};
  tensors.outputs = {sums.data(), nullptr};
  tensors.num_uploads = &num_uploads;
  test::Pending pending;
  Request request = UploadRequest(std::move(tensors));
  request.done = pending.done();
  communicator.Enqueue(std::move(request));
  CHECK_EQ(Describe(pending.Await()), "");
  int64_t number = 0;
  std::vector<double> expected(length);
  for (size_t other = 0; other < uploads.size(); ++other) {
    if (!uploads[other]) continue;
    ++number;
    for (size_t i = 0; i < length; ++i) expected[i] += ValueOf(static_cast<int>(other), i);
  }
  CHECK_EQ(num_uploads, number);
  CHECK_TRUE(sums == expected);
}

// Every choice of ranks, one after the other.
TEST(SumsOfThoseWhoUpload) {
  test::ForEachWorld({1, 2, 3, 4, 5}, [](Wire wire, int size) {
    CountedRanks ranks(wire, size);
    for (int choice = 0; choice < (1 << size); ++choice) {
      std::vector<bool> uploads;
      for (int rank = 0; rank < size; ++rank) uploads.push_back((choice >> rank & 1) != 0);
      Scope scope("choice " + std::to_string(choice));
      for (size_t length : {3, 5000}) {
        ForEachRank(size, [&](int rank) { CheckUploads(ranks[rank], uploads, length); });
      }
    }
  });
}

// Ranks that upload together have met others before, and choose alike all the same whether they
// pack or copy across.
TEST(SumsOfThoseWhoUploadAcrossProcesses) {
  for (int size : {3, 4, 5}) {
    Scope scope(std::to_string(size) + " ranks");
    CountedRanks ranks(Wire::kCrossMemory, size);
    std::mt19937 random(size);
    for (int round = 0; round < 60; ++round) {
      const auto choice = static_cast<int>(random() % (1U << size));
      std::vector<bool> uploads;
      for (int rank = 0; rank < size; ++rank) uploads.push_back((choice >> rank & 1) != 0);
      ForEachRank(size, [&](int rank) { CheckUploads(ranks[rank], uploads, 9000); });
    }
    CHECK_TRUE(ranks.num_stored_bytes() > 0);
  }
}

// P + U - 2 vectors where messages are copied, and what ranks tell each other.
TEST(BytesAreThoseOfTheUploads) {
  constexpr size_t kLength = 40000;
  for (int size : {2, 3, 4, 5}) {
    for (int number = 0; number <= size; ++number) {
      Scope scope(std::to_string(number) + " of " + std::to_string(size));
      CountedRanks ranks(Wire::kCopies, size);
      std::vector<bool> uploads(size);
      for (int rank = 0; rank < number; ++rank) uploads[rank] = true;
      ForEachRank(size, [&](int rank) { CheckUploads(ranks[rank], uploads, kLength); });
      const double vector_bytes = 8.0 * kLength;
      const bool is_power = (number & (number - 1)) == 0;
      // Where the number is no power of two a rank folds into another: a vector more each way.
      const double vectors = number == 0 ? 0 : size + number - 2;
      CHECK_TRUE(ranks.num_bytes() >= vectors * vector_bytes);
      CHECK_AT_MOST(static_cast<double>(ranks.num_bytes()),
                    (vectors + (is_power ? 0 : number)) * vector_bytes + 1000.0 * size);
    }
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
