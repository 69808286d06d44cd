#include "tests/cc/check.h"

#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <vector>

namespace adasum {
namespace test {
namespace {

struct Case {
  const char* name;
  void (*body)();
  int num_failures = 0;
};

// Enough to see a pattern, few enough to read.
constexpr int kMostPrinted = 20;

std::vector<Case>& Cases() {
  static std::vector<Case> cases;
  return cases;
}

std::mutex mutex;
Case* running = nullptr;
thread_local std::vector<std::string> scopes;

void WriteReport() {
  const char* path = std::getenv("XML_OUTPUT_FILE");
  if (path == nullptr) return;
  std::ofstream out(path);
  int num_failed = 0;
  for (const Case& each : Cases()) num_failed += each.num_failures > 0;
  out << "<testsuites><testsuite name=\"cc\" tests=\"" << Cases().size() << "\" failures=\""
      << num_failed << "\" errors=\"0\">\n";
  for (const Case& each : Cases()) {
    out << "<testcase classname=\"cc\" name=\"" << each.name << "\">";
    if (each.num_failures > 0) {
      out << "<failure message=\"" << each.num_failures << " checks failed\"/>";
    }
    out << "</testcase>\n";
  }
  out << "</testsuite></testsuites>\n";
}

}  // namespace

RegisterTest::RegisterTest(const char* name, void (*body)()) { Cases().push_back({name, body}); }

Scope::Scope(std::string text) { scopes.push_back(std::move(text)); }

Scope::~Scope() { scopes.pop_back(); }

void Fail(const char* file, int line, const std::string& message) {
  std::lock_guard<std::mutex> lock(mutex);
  if (++running->num_failures > kMostPrinted) return;
  std::string where;
  for (const std::string& scope : scopes) where += " [" + scope + "]";
  std::fprintf(stderr, "%s:%d:%s %s\n", file, line, where.c_str(), message.c_str());
}

int NumFailures() {
  std::lock_guard<std::mutex> lock(mutex);
  return running->num_failures;
}

std::string Show(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.17g", value);
  return text;
}

std::string Show(const std::string& value) { return "\"" + value + "\""; }

void CheckAtMost(double got, double limit, const char* text, const char* file, int line) {
  if (got <= limit) return;
  Fail(file, line, std::string(text) + ": expected at most " + Show(limit) + ", got " + Show(got));
}

int RunAll() {
  // Long vectors that were freed are used again: fresh pages took a third of the time.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  int num_failed = 0;
  for (Case& each : Cases()) {
    running = &each;
    each.body();
    num_failed += each.num_failures > 0;
    std::fprintf(stderr, "%s %s (%d checks failed)\n", each.num_failures ? "FAILED" : "passed",
                 each.name, each.num_failures);
  }
  WriteReport();
  if (Cases().empty()) std::fprintf(stderr, "Expected at least one test. Received: none.\n");
  return num_failed > 0 || Cases().empty() ? 1 : 0;
}

}  // namespace test
}  // namespace adasum

#if defined(__SANITIZE_THREAD__)
// libstdc++ is not instrumented: the atomic count of who holds an exception's text goes unseen.
extern "C" const char* __tsan_default_suppressions() {
  return "race:std::runtime_error::~runtime_error\n";
}
#endif
