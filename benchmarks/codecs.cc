// Times encoding and decoding by each codec beside memcpy, in bytes of values per second:
//
//   bazel run -c opt //benchmarks:codecs
//
// One thread, float32, with error feedback; medians of interleaved repetitions. "64 MiB" lies in
// memory, "256 KiB" in a core's caches.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cc/arithmetic/instruction_sets.h"
#include "cc/compression/codec.h"

namespace {

constexpr int kRepetitions = 21;
const char* const kCodecs[] = {"identity",   "float16",     "bfloat16",       "sign",
                               "top_k:0.01", "quantized:4", "threshold:0.01", "sketch:0.01:0.04:5"};

double Seconds(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

struct Measured {
  std::vector<double> copy, encode, decode;
};

void Measure(const std::string& name, int64_t n) {
  const auto& kernels = adasum::CodecKernelsOf(adasum::WidestInstructionSet());
  const auto codec = adasum::MakeCodec(name, adasum::DType::kFloat32, kernels);
  std::vector<float> values(n), residual(n), decoded(n);
  std::mt19937 random(0);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  std::vector<char> code(codec->EncodedBytes(n));
  // So many times that the clock tells them apart.
  const int64_t rounds = std::max<int64_t>(1, (int64_t{4} << 20) / n);
  const auto repeat = [&](const std::function<void()>& run) {
    return Seconds([&] {
             for (int64_t i = 0; i < rounds; ++i) run();
           }) /
           rounds;
  };
  Measured measured;
  for (int i = 0; i < kRepetitions; ++i) {
    measured.copy.push_back(
        repeat([&] { std::memcpy(decoded.data(), values.data(), n * sizeof(float)); }));
    measured.encode.push_back(
        repeat([&] { codec->Encode(values.data(), residual.data(), n, code.data()); }));
    measured.decode.push_back(repeat([&] { codec->Decode(code.data(), n, decoded.data()); }));
  }
  const double copy = Median(measured.copy), bytes = n * sizeof(float);
  const double encode = Median(measured.encode), decode = Median(measured.decode);
  std::printf("| %s | %.1f | %.1f, %.0f %% | %.1f, %.0f %% |\n", name.c_str(), bytes / copy * 1e-9,
              bytes / encode * 1e-9, 100 * copy / encode, bytes / decode * 1e-9,
              100 * copy / decode);
}

}  // namespace

int main() {
  for (const auto& [size, n] :
       {std::pair("64 MiB", int64_t{16} << 20), std::pair("256 KiB", int64_t{64} << 10)}) {
    std::printf("\n| %s | copy, GB/s | encode, of the copy | decode, of the copy |\n", size);
    std::printf("|---|---:|---:|---:|\n");
    for (const char* name : kCodecs) Measure(name, n);
  }
}
