// For tests that hold that closed communicators give back what MPI has only so many of.
#ifndef ADASUM_BOOTSTRAP_MPI_CONTEXTS_IN_USE_H_
#define ADASUM_BOOTSTRAP_MPI_CONTEXTS_IN_USE_H_

namespace adasum {

// The numbers of groups in MPI's tags (mpi_contexts.h) that are taken in this process now.
int MpiContextsInUse();

}  // namespace adasum

#endif  // ADASUM_BOOTSTRAP_MPI_CONTEXTS_IN_USE_H_
