#include "tests/scale/resident.h"

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace adasum {
namespace test {
namespace {

// Of a line "Name:   123 kB".
int64_t BytesIn(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t kib = 0;
    if (words >> first >> kib && first == name) return kib * 1024;
  }
  throw std::runtime_error("Expected a line '" + name + "' in " + path + ". Received: none.");
}

}  // namespace

int64_t ResidentBytes() {
  return BytesIn("/proc/self/smaps_rollup", "Pss:") + BytesIn("/proc/self/status", "VmPTE:");
}

}  // namespace test
}  // namespace adasum
