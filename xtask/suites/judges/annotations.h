// GPUVerify's annotations: a thread whose assumptions do not hold leaves.
#include <cassert>
#include <cooperative_groups.h>
#include <cuda.h>
#define __requires(condition)                    \
    do {                                         \
        if (!(condition)) asm volatile("exit;"); \
    } while (0)
#define __assume(condition) __requires(condition)
#define __implies(one, other) (!(one) || (other))
#define __enabled() true
#define __invariant(condition) ((void)0)
#define __global_invariant(condition) ((void)0)
#define __ensures(condition) ((void)0)
#define __global_ensures(condition) ((void)0)
#define __requires_fresh_array(array) ((void)0)
#undef __assert
#define __assert(condition) ((void)0)
#define __axiom(condition) static_assert(true, "")
#define __non_temporal(statement) statement
#define __mod_pow2(one, other) ((one) & ((other) - 1))
namespace cooperative_groups {
template <class Group> __device__ void synchronize(Group &group) { group.sync(); }
}
