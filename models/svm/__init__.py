"""Support vector machines by SMO over MPI ranks, with elimination of samples."""
