// The settings in the environment: what each makes of the options, and what is refused.

#include "cc/engine/communicator_options.h"

#include <cstdlib>
#include <locale>

#include "cc/core/error.h"
#include "cc/core/numbers.h"
#include "tests/cc/check.h"

namespace adasum {
namespace {

using test::Scope;

// The options with one variable set.
CommunicatorOptions With(const char* variable, const char* value) {
  setenv(variable, value, 1);
  const CommunicatorOptions options = CommunicatorOptions::FromEnvironment();
  unsetenv(variable);
  return options;
}

TEST(WithoutVariablesTheDefaultsStand) {
  const CommunicatorOptions options = CommunicatorOptions::FromEnvironment();
  CHECK_EQ(options.timeouts.silence_seconds, 600.0);
  CHECK_EQ(options.timeouts.mismatch_seconds, 60.0);
  CHECK_EQ(options.host + options.timeline, "");
  CHECK_EQ(options.cores, 0);
  CHECK_TRUE(options.instruction_set == InstructionSet::kAvx512);
  CHECK_TRUE(options.shared_memory && options.cross_memory && options.cuda.ipc && options.cuda.mpi);
  CHECK_EQ(options.cuda.chunk_bytes, int64_t{0});
}

TEST(WhatIsGivenCountsMoreThanTheEnvironment) {
  setenv("TF_ADASUM_SHARED_MEMORY", "0", 1);
  setenv("TF_ADASUM_TIMELINE", "/tmp/environment", 1);
  const auto options = CommunicatorOptions::FromEnvironment({{"shared_memory", "1"},
                                                             {"timeline", "/tmp/given"},
                                                             {"zero_copy", "0"},
                                                             {"cross_memory", "0"}});
  unsetenv("TF_ADASUM_SHARED_MEMORY");
  unsetenv("TF_ADASUM_TIMELINE");
  CHECK_TRUE(options.shared_memory && !options.zero_copy && !options.cross_memory);
  CHECK_EQ(options.timeline, "/tmp/given");
}

TEST(EveryVariableSetsItsOption) {
  CHECK_EQ(With("TF_ADASUM_TIMEOUT_SECONDS", "1.5").timeouts.silence_seconds, 1.5);
  CHECK_EQ(With("TF_ADASUM_MISMATCH_SECONDS", "2").timeouts.mismatch_seconds, 2.0);
  CHECK_EQ(With("TF_ADASUM_HOST", "left").host, "left");
  CHECK_EQ(With("TF_ADASUM_CORES", "3").cores, 3);
  CHECK_TRUE(!With("TF_ADASUM_CROSS_MEMORY", "0").cross_memory);
  CHECK_TRUE(With("TF_ADASUM_INSTRUCTION_SET", "baseline").instruction_set ==
             InstructionSet::kBaseline);
  CHECK_TRUE(With("TF_ADASUM_INSTRUCTION_SET", "avx2").instruction_set == InstructionSet::kAvx2);
  CHECK_TRUE(!With("TF_ADASUM_SHARED_MEMORY", "0").shared_memory);
  CHECK_TRUE(!With("TF_ADASUM_CUDA_IPC", "0").cuda.ipc);
  CHECK_TRUE(!With("TF_ADASUM_CUDA_MPI", "0").cuda.mpi);
  CHECK_TRUE(With("TF_ADASUM_CUDA_MPI", "1").cuda.mpi);
  CHECK_EQ(With("TF_ADASUM_TIMELINE", "/tmp/trace").timeline, "/tmp/trace");
}

// A program may set the locale of its user, in which 0.5 is 0,5.
class Commas : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
};

TEST(NumbersAreReadAndWrittenAlikeInEveryLocale) {
  const std::locale before = std::locale::global(std::locale(std::locale(), new Commas));
  double number = 0;
  CHECK_TRUE(ParseNumber("0.5", &number));
  CHECK_EQ(number, 0.5);
  CHECK_TRUE(ParseNumber("1e-05", &number));
  CHECK_EQ(number, 1e-5);
  CHECK_EQ(InSeconds(0.5) + ", " + InSeconds(600), "0.5 s, 600 s");
  for (const char* text : {"", "0,5", "half", "0.5 ", "nan", "inf", "1e999"}) {
    Scope scope(text);
    CHECK_TRUE(!ParseNumber(text, &number));
  }
  std::locale::global(before);
}

TEST(ChunksAreWholeCacheLines) {
  CHECK_EQ(With("TF_ADASUM_CUDA_STEP_BYTES", "1").cuda.chunk_bytes, int64_t{256});
  CHECK_EQ(With("TF_ADASUM_CUDA_STEP_BYTES", "5000").cuda.chunk_bytes, int64_t{5120});
  CHECK_EQ(With("TF_ADASUM_CUDA_STEP_BYTES", "8192").cuda.chunk_bytes, int64_t{8192});
}

TEST(AnEmptyVariableIsAsNone) {
  for (const char* variable :
       {"TF_ADASUM_TIMEOUT_SECONDS", "TF_ADASUM_CORES", "TF_ADASUM_INSTRUCTION_SET",
        "TF_ADASUM_CUDA_STEP_BYTES", "TF_ADASUM_SHARED_MEMORY"}) {
    Scope scope(variable);
    const CommunicatorOptions options = With(variable, "");
    CHECK_EQ(options.timeouts.silence_seconds, 600.0);
    CHECK_TRUE(options.cores == 0 && options.cuda.chunk_bytes == 0 && options.shared_memory);
  }
}

TEST(WrongValuesAreRefusedWithTheirVariable) {
  const std::pair<const char*, const char*> wrong[] = {
      {"TF_ADASUM_TIMEOUT_SECONDS", "0"},
      {"TF_ADASUM_TIMEOUT_SECONDS", "5x"},
      {"TF_ADASUM_TIMEOUT_SECONDS", "inf"},
      {"TF_ADASUM_TIMEOUT_SECONDS", "1e10"},
      {"TF_ADASUM_TIMEOUT_SECONDS", " 5"},
      {"TF_ADASUM_MISMATCH_SECONDS", "-1"},
      {"TF_ADASUM_MISMATCH_SECONDS", "nan"},
      {"TF_ADASUM_CORES", "0"},
      {"TF_ADASUM_CORES", "many"},
      {"TF_ADASUM_CORES", "3x"},
      {"TF_ADASUM_CORES", "4294967297"},
      {"TF_ADASUM_SHARED_MEMORY", "no"},
      {"TF_ADASUM_ARENA", "no"},
      {"TF_ADASUM_ARENA", "4096"},
      {"TF_ADASUM_CUDA_IPC", "false"},
      {"TF_ADASUM_CUDA_MPI", "2"},
      {"TF_ADASUM_INSTRUCTION_SET", "sse9"},
      {"TF_ADASUM_CUDA_STEP_BYTES", "0"},
      {"TF_ADASUM_CUDA_STEP_BYTES", "-1"},
      {"TF_ADASUM_CUDA_STEP_BYTES", "4096x"},
      {"TF_ADASUM_CUDA_STEP_BYTES", "68719476736"},
  };
  for (const auto& [variable, value] : wrong) {
    Scope scope(std::string(variable) + "=" + value);
    std::string message;
    try {
      With(variable, value);
    } catch (const Error& error) {
      CHECK_TRUE(error.code() == ErrorCode::kInvalidArgument);
      message = error.what();
    }
    unsetenv(variable);
    CHECK_TRUE(message.find(std::string("Expected ") + variable + " to be ") == 0);
    CHECK_TRUE(message.find(std::string("Received: ") + value) != std::string::npos);
  }
}

}  // namespace
}  // namespace adasum

int main() { return adasum::test::RunAll(); }
