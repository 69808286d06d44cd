// Arithmetic that does not depend on whose thread it runs on.
#ifndef ADASUM_CORE_DEFAULT_FLOATS_H_
#define ADASUM_CORE_DEFAULT_FLOATS_H_

#if defined(__SSE2__)
#include <xmmintrin.h>
#else
#include <cfenv>
#endif

namespace adasum {

// While it lives the thread computes with subnormal numbers and rounds to nearest, as C++ does by
// default; TensorFlow's threads flush subnormal numbers to zero.
class DefaultFloats {
 public:
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;

#if defined(__SSE2__)
  // The one register that vector instructions look at; fesetenv would set more, and take longer.
  DefaultFloats() : callers_(_mm_getcsr()) {
    if ((callers_ & ~kNoted) != kDefault) _mm_setcsr(kDefault);
  }
  ~DefaultFloats() {
    if ((callers_ & ~kNoted) != kDefault) _mm_setcsr(callers_);
  }

 private:
  static constexpr unsigned kNoted = 0x3f;      // exceptions that have happened
  static constexpr unsigned kDefault = 0x1f80;  // none traps, nothing is flushed to zero
  const unsigned callers_;
#else
  DefaultFloats() {
    std::feholdexcept(&callers_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { std::fesetenv(&callers_); }

 private:
  std::fenv_t callers_;
#endif
};

}  // namespace adasum

#endif  // ADASUM_CORE_DEFAULT_FLOATS_H_
