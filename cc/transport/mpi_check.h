// What MPI's functions return, as exceptions.
#ifndef ADASUM_TRANSPORT_MPI_CHECK_H_
#define ADASUM_TRANSPORT_MPI_CHECK_H_

namespace adasum {

// Throws Internal with MPI's own words unless `code`, which `call` returned, is MPI_SUCCESS.
void CheckMpi(int code, const char* call);

}  // namespace adasum

#endif  // ADASUM_TRANSPORT_MPI_CHECK_H_
