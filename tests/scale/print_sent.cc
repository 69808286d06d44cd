// Prints what every rank of a world sends in an allreduce of float32, by the algorithms themselves:
// ranks are threads whose wire counts. schedule_test compares it with tf_adasum/advise/schedule.py.
//
//   print_sent WIRE REDUCTION SIZE,SIZE,... COUNT,COUNT,...
//
// A line for each size: for each rank the bytes and the messages. WIRE is "copies", on which all
// is halved in one message, or "shared memory".

#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cc/reduced_leaves.h"

namespace adasum {
namespace test {
namespace {

std::vector<int64_t> Numbers(const std::string& text) {
  std::vector<int64_t> numbers;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) numbers.push_back(std::stoll(word));
  return numbers;
}

void Print(Wire wire, const char* reduction, int size, const std::vector<int64_t>& counts) {
  Leaves inputs = RandomLeaves(size, DType::kFloat32, counts);
  const Outcome outcome = ReduceOnAllRanks(wire, reduction, inputs);
  for (int rank = 0; rank < size; ++rank) {
    std::printf("%lld %lld ", static_cast<long long>(outcome.bytes_sent[rank]),
                static_cast<long long>(outcome.num_messages[rank]));
  }
  std::printf("\n");
}

}  // namespace
}  // namespace test
}  // namespace adasum

int main(int argc, char** argv) {
  using adasum::test::Wire;
  if (argc != 5) return 2;
  const Wire wire = std::string(argv[1]) == "copies" ? Wire::kCopies : Wire::kSharedMemory;
  for (int64_t size : adasum::test::Numbers(argv[3])) {
    adasum::test::Print(wire, argv[2], static_cast<int>(size), adasum::test::Numbers(argv[4]));
  }
}
