// How a group ends that nobody uses any more.
#ifndef ADASUM_BOOTSTRAP_CLOSER_H_
#define ADASUM_BOOTSTRAP_CLOSER_H_

#include <memory>

#include "cc/bootstrap/group.h"

namespace adasum {

// A group whose last user closes it by letting go of it: Python's garbage collector, a thread of
// TensorFlow, or the group's own communication thread after its last request. None of them may
// wait, and the last one can't end itself, so that a thread of its own closes such groups.
std::shared_ptr<Group> Shared(std::unique_ptr<Group> group);

// Waits, for a few seconds at most, until the groups let go of so far are closed.
void AwaitClosed();

}  // namespace adasum

#endif  // ADASUM_BOOTSTRAP_CLOSER_H_
