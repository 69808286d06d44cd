// Checks for C++ tests, without a framework: a check that fails prints where, what it got and what
// it expected; the test program then ends with code 1. Checks may be made from any thread.
//
//   TEST(SumOfTwo) { CHECK_EQ(1 + 1, 2); }
//   int main() { return adasum::test::RunAll(); }
#ifndef ADASUM_TESTS_CC_CHECK_H_
#define ADASUM_TESTS_CC_CHECK_H_

#include <cstdint>
#include <functional>
#include <string>

namespace adasum {
namespace test {

// Registers a test when its file is loaded.
class RegisterTest {
 public:
  RegisterTest(const char* name, void (*body)());
};

// Runs all tests in the order of the file; returns main's exit code. No tests are a failure. Where
// Bazel asks for it, writes a report with one case per test.
int RunAll();

// Notes a failure of the test that runs.
void Fail(const char* file, int line, const std::string& message);

// Of the test that runs, so far.
int NumFailures();

// What a failure says of the values that a loop checks. Inner scopes are printed last; they belong
// to the thread that made them.
class Scope {
 public:
  explicit Scope(std::string text);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

std::string Show(double value);
std::string Show(const std::string& value);
inline std::string Show(const char* value) { return Show(std::string(value)); }
inline std::string Show(bool value) { return value ? "true" : "false"; }
inline std::string Show(int value) { return std::to_string(value); }
inline std::string Show(int64_t value) { return std::to_string(value); }
inline std::string Show(uint64_t value) { return std::to_string(value); }

template <typename Got, typename Expected>
void CheckEqual(const Got& got, const Expected& expected, const char* text, const char* file,
                int line) {
  if (got == expected) return;
  Fail(file, line, std::string(text) + ": expected " + Show(expected) + ", got " + Show(got));
}

// A NaN on either side fails.
void CheckAtMost(double got, double limit, const char* text, const char* file, int line);

}  // namespace test
}  // namespace adasum

#define TEST(name)                                                           \
  static void Test##name();                                                  \
  static const ::adasum::test::RegisterTest kTest##name(#name, &Test##name); \
  static void Test##name()

#define CHECK_EQ(got, expected) ::adasum::test::CheckEqual(got, expected, #got, __FILE__, __LINE__)
#define CHECK_TRUE(condition) CHECK_EQ(static_cast<bool>(condition), true)
// got <= limit
#define CHECK_AT_MOST(got, limit) ::adasum::test::CheckAtMost(got, limit, #got, __FILE__, __LINE__)

#endif  // ADASUM_TESTS_CC_CHECK_H_
