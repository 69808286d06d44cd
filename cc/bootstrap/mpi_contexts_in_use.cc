#include "cc/bootstrap/mpi_contexts_in_use.h"

#include "cc/transport/mpi_contexts.h"

namespace adasum {

int MpiContextsInUse() { return MpiContexts::NumInUse(); }

}  // namespace adasum
