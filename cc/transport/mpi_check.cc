#include "cc/transport/mpi_check.h"

#include <mpi.h>

#include <string>

#include "cc/core/error.h"

namespace adasum {

void CheckMpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ErrorCode::kInternal, std::string(call) + ": " + std::string(text, length));
}

}  // namespace adasum
