// Elements of every dtype as doubles, by scalar code that shares nothing with the kernels: the
// small floats are decoded and rounded from their definition.
#ifndef ADASUM_TESTS_CC_ELEMENTS_H_
#define ADASUM_TESTS_CC_ELEMENTS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "cc/arena/arena.h"
#include "cc/core/dtype.h"

namespace adasum {
namespace test {

constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kDTypes[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64,
                             DType::kInt32,   DType::kInt64,    DType::kBool};

// A binary float of 16 bits with a sign.
struct SmallFloat {
  int exponent_bits;
  int mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint16_t infinity() const { return ((1 << exponent_bits) - 1) << mantissa_bits; }
  bool IsNan(uint16_t bits) const { return (bits & 0x7FFF) > infinity(); }
  double Decode(uint16_t bits) const;
  // Rounds to nearest, ties to even; beyond the largest value to infinity.
  uint16_t Encode(double value) const;
};

constexpr SmallFloat kHalf{5, 10};
constexpr SmallFloat kBrain{8, 7};

double Get(DType dtype, const void* elements, int64_t index);
// Rounds once, to nearest even; integers must be whole, bool 0 or 1.
void Set(DType dtype, void* elements, int64_t index, double value);

// Half the distance between neighbours of the dtype at |value|: the rounding error of one store.
double HalfUlp(DType dtype, double value);

// While one lives, new Elements are made in the process's arena, where peers can reach them.
class InArena {
 public:
  InArena() { ++num_alive_; }
  ~InArena() { --num_alive_; }
  InArena(const InArena&) = delete;
  InArena& operator=(const InArena&) = delete;
  static bool IsAsked() { return num_alive_ > 0; }

 private:
  static std::atomic<int> num_alive_;
};

// For std::vector: of the arena where that is asked for.
template <typename T>
struct ElementsAllocator {
  using value_type = T;
  T* allocate(size_t count) {
    if (!InArena::IsAsked()) return std::allocator<T>().allocate(count);
    void* block = Arena::OfProcess().Allocate(count * sizeof(T), 64);
    if (block == nullptr) throw std::bad_alloc();
    return static_cast<T*>(block);
  }
  void deallocate(T* block, size_t count) {
    if (!Arena::OfProcess().Free(block)) std::allocator<T>().deallocate(block, count);
  }
  bool operator==(const ElementsAllocator&) const { return true; }
  bool operator!=(const ElementsAllocator&) const { return false; }
};

// Elements in memory that begins `misalignment` bytes behind a multiple of 64.
class Elements {
 public:
  Elements(DType dtype, int64_t count, int misalignment = 0);
  Elements(DType dtype, const std::vector<double>& values, int misalignment = 0);

  DType dtype() const { return dtype_; }
  int64_t size() const { return count_; }
  int64_t num_bytes() const { return count_ * ElementBytes(dtype_); }
  char* bytes() { return begin_; }
  const char* bytes() const { return begin_; }
  double operator[](int64_t index) const { return Get(dtype_, begin_, index); }
  std::vector<double> Values() const;
  // Whether the memory around the elements is as it was made.
  bool SurroundingsAreIntact() const;

  Elements(const Elements& other);
  Elements& operator=(const Elements&) = delete;

 private:
  DType dtype_;
  int64_t count_;
  int misalignment_;
  std::vector<char, ElementsAllocator<char>> memory_;
  char* begin_;
};

}  // namespace test
}  // namespace adasum

#endif  // ADASUM_TESTS_CC_ELEMENTS_H_
