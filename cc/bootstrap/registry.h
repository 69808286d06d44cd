// The open groups of this process, by number: how an op finds its communicator.
#ifndef ADASUM_BOOTSTRAP_REGISTRY_H_
#define ADASUM_BOOTSTRAP_REGISTRY_H_

#include <cstdint>
#include <map>
#include <memory>

#include "cc/bootstrap/group.h"

namespace adasum {

// A forked child's groups are its parent's: OpenGroups has none there, and what takes back an id,
// or leaves, does nothing.

// Registers a group under an id that is unique in this process, for ops to find.
int64_t Register(std::shared_ptr<Group> group);
// Throws InvalidArgument for an id that was never given out, Unavailable for one taken back.
std::shared_ptr<Group> FindGroup(int64_t id);
// All that are open, by id; also those that only a function of TensorFlow has.
std::map<int64_t, std::shared_ptr<Group>> OpenGroups();
// Closes the group's communicator and takes the id back; a second call does nothing.
void Unregister(int64_t id);
// Takes the id back. The group stays open while anybody else has it: functions of TensorFlow may.
void Release(int64_t id);
// Leaves all groups; called before the interpreter and MPI end.
void ShutdownAll();

}  // namespace adasum

#endif  // ADASUM_BOOTSTRAP_REGISTRY_H_
