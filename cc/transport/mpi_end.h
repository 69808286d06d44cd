// How MPI ends in this process: whoever finalises it, its users here leave it before.
#ifndef ADASUM_TRANSPORT_MPI_END_H_
#define ADASUM_TRANSPORT_MPI_END_H_

#include <functional>
#include <memory>

namespace adasum {

// Has `leave` called first of all when MPI is finalised, by whomever, if `user` lives until then:
// it must see to it that nobody calls MPI for `user` afterwards. `user` lives until it returns.
// Functions are called in the order in which they were given. Throws Internal if MPI refuses.
void LeaveBeforeMpiEnds(const std::shared_ptr<void>& user, std::function<void()> leave);

// Whether MPI can be called: it was initialised, it has not begun to end, and this process is no
// forked child of the one that uses it, in whose hands its connections would break.
bool MpiIsUsable();

// Runs `call` if MPI can be called. MPI does not end before it returns, whichever thread finalises
// it meanwhile, so it must not wait for other processes.
void IfMpiIsUsable(const std::function<void()>& call);

// Ends MPI as a program's end should, unless that was done before or is not this process' to do.
void FinalizeMpi();

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_END_H_
