// How large the arena may become.
#ifndef ADASUM_ARENA_HEAP_SIZE_H_
#define ADASUM_ARENA_HEAP_SIZE_H_

#include <cstdint>

namespace adasum {

// What TF_ADASUM_ARENA may hold: see ParseHeapBytes.
constexpr char kHeapBytesWanted[] = "0, 1 or a number of bytes from 16777216 on, as 8G or 512M";

// Of the setting: 0 for "0" (no arena), -1 for "1" (as large as this machine suggests), else a
// number of bytes, also with K, M or G behind it. False if it is none of these.
bool ParseHeapBytes(const char* text, int64_t* num_bytes);

// The least memory that this process's control groups allow, of version 1 and 2; INT64_MAX if they
// don't say. `root` comes before all paths; it is empty but in tests.
int64_t LimitOfControlGroups(const char* root);

// How large the file may become, by the environment and the limits of this process; 0 if there may
// be none. A setting that can't be read gives 0 too: the communicator refuses it.
int64_t HeapBytes();

// The same of a setting (null if there is none).
int64_t HeapBytes(const char* setting);

}  // namespace adasum

#endif  // ADASUM_ARENA_HEAP_SIZE_H_
