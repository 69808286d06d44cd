// Whether an object is used where it was made, or in a forked child: a child has a copy of all
// memory, and none of the threads.
#ifndef ADASUM_CORE_FORKS_H_
#define ADASUM_CORE_FORKS_H_

#include <cstdint>

namespace adasum {

// How often this process and its ancestors were forked since the library was loaded, in the line
// of children: 0 where it was loaded.
int64_t NumForks();

// Remembers the process that it was made in. Mutexes may be held by threads that a child does not
// have: ask before locking one.
class HomeProcess {
 public:
  bool IsHere() const { return num_forks_ == NumForks(); }
  // Throws Unavailable in a child.
  void Check(int rank) const;

 private:
  const int64_t num_forks_ = NumForks();
};

}  // namespace adasum

#endif  // ADASUM_CORE_FORKS_H_
