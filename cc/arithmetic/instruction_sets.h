// The instruction sets for which the CPU's loops are compiled, and which of them a process uses.
#ifndef ADASUM_ARITHMETIC_INSTRUCTION_SETS_H_
#define ADASUM_ARITHMETIC_INSTRUCTION_SETS_H_

#include <string>

#include "cc/arithmetic/cpu_kernels.h"

namespace adasum {

// From the narrowest to the widest: a CPU that runs one runs those before it.
enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// The widest that this CPU runs.
InstructionSet WidestInstructionSet();

// From its name: baseline, avx2, avx512. False for another name.
bool ParseInstructionSet(const std::string& name, InstructionSet* set);

// The loops for an instruction set that this CPU runs.
const CpuKernels& KernelsOf(InstructionSet set);

}  // namespace adasum

#endif  // ADASUM_ARITHMETIC_INSTRUCTION_SETS_H_
