// What the fuzzer has found of use, once more: whole, cut off anywhere, and with a byte changed.

#include "tests/cc/hostile_peers.h"

#include <dirent.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/cc/check.h"

namespace adasum {
namespace {

constexpr char kFolder[] = "tests/cc/corpus/";

std::vector<std::string> Corpus() {
  std::vector<std::string> inputs;
  DIR* folder = opendir(kFolder);
  if (folder == nullptr) return inputs;
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] == '.') continue;  // this folder and the one above
    std::ifstream in(kFolder + std::string(entry->d_name), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  closedir(folder);
  return inputs;
}

void Meet(const std::string& input) {
  // A copy that ends where the input does, so that a sanitizer sees who reads on.
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  test::MeetHostilePeers(bytes.data(), bytes.size());
}

TEST(TheCorpusDoesNoHarm) {
  int num_inputs = 0;
  for (const std::string& input : Corpus()) {
    num_inputs += !input.empty();
    Meet(input);
    for (size_t length = 0; length < input.size(); ++length) Meet(input.substr(0, length));
    for (size_t i = 0; i < input.size(); ++i) {
      for (const unsigned char change : {0x01, 0x80, 0xff}) {
        std::string changed = input;
        changed[i] = static_cast<char>(changed[i] ^ change);
        Meet(changed);
      }
    }
  }
  CHECK_TRUE(num_inputs >= 5);  // one for each step, at least
}

// The notice of a rank that ends, by a number that no rank has.
TEST(TheEndOfARankThatThereIsNotDoesNoHarm) {
  for (const uint64_t rank : {uint64_t{3}, uint64_t{1} << 31, ~uint64_t{0}}) {
    const uint64_t round[] = {0, 2 * rank, 0, 2 * rank};  // the least digest, and the greatest
    const std::string bytes(reinterpret_cast<const char*>(round), sizeof(round));
    Meet(std::string(1, '\0') + bytes + bytes);  // the first step, which negotiates in two rounds
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
