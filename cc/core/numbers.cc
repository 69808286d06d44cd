#include "cc/core/numbers.h"

#include <cmath>
#include <locale>
#include <sstream>

namespace adasum {

bool ParseNumber(const std::string& text, double* number) {
  std::istringstream in(text);
  in.imbue(std::locale::classic());
  in >> std::noskipws >> *number;
  return !in.fail() && in.peek() == std::istringstream::traits_type::eof() &&
         std::isfinite(*number);
}

std::string InSeconds(double seconds) {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << seconds << " s";
  return out.str();
}

}  // namespace adasum
