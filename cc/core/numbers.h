// Numbers as text, the same whatever locale the program has set.
#ifndef ADASUM_CORE_NUMBERS_H_
#define ADASUM_CORE_NUMBERS_H_

#include <string>

namespace adasum {

// Reads a whole text, such as "0.5" or "1e-3". Returns false if it is no finite number.
bool ParseNumber(const std::string& text, double* number);

// "0.5 s", "600 s".
std::string InSeconds(double seconds);

}  // namespace adasum

#endif  // ADASUM_CORE_NUMBERS_H_
