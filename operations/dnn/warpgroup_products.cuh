// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/vectors.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// Products of matrices of 16-bit numbers by warpgroups, which read them from shared memory. The
// layouts are those of wgmma with a swizzle of 128 bytes in the manual of PTX.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define SLUICE_HAS_WARPGROUP_PRODUCTS 1

namespace sluice::operations {
namespace {

/// The descriptor of a swizzled matrix, whose rows of 128 bytes come in groups of eight. `panel` is
/// the distance in bytes of its panels of 64 columns.
[[nodiscard]] __device__ inline std::uint64_t matrix_descriptor(const void* memory, int panel) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
  constexpr std::uint64_t group = 1024 / 16;
  constexpr std::uint64_t swizzle = 1;
  return static_cast<std::uint64_t>((address & 0x3ffffU) >> 4) |
         static_cast<std::uint64_t>(panel >> 4) << 16 | group << 32 | swizzle << 62;
}
/// The descriptor of a matrix that begins this many bytes later.
[[nodiscard]] __device__ inline std::uint64_t later_matrix(std::uint64_t descriptor, int bytes) {
  return descriptor + static_cast<std::uint32_t>(bytes / 16);
}

/// A barrier in shared memory for a number of arrivals in each phase.
///@{
__device__ inline void prepare_barrier(std::uint64_t* barrier, int arrivals) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
}
__device__ inline void arrive(std::uint64_t* barrier) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
}
/// Arrives once the copies of the thread have ended.
__device__ inline void arrive_after_copies(std::uint64_t* barrier) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address) : "memory");
}
/// Waits for the end of the phase of this parity.
__device__ inline void await_phase(std::uint64_t* barrier, std::uint32_t parity) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(barrier));
  asm volatile(
      "{.reg .pred p; again%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; "
      "@!p bra again%=;}" ::"r"(address),
      "r"(parity)
      : "memory");
}
///@}

/// Orders products after what registers and shared memory hold.
///@{
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void publish_copies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
///@}
/// Ends a group of products.
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `Groups` groups are unfinished. Compilers do not merge waits at different
/// places.
template <int Groups, int Place = 0>
__device__ inline void await_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0; // %1" ::"n"(Groups), "n"(Place) : "memory");
}
/// Keeps the compiler from moving accesses to results of products.
template <int Count>
__device__ inline void pin(float (&results)[Count][4]) {
#pragma unroll
  for (int n = 0; n < Count; ++n) {
    asm volatile(""
                 : "+f"(results[n][0]), "+f"(results[n][1]), "+f"(results[n][2]),
                   "+f"(results[n][3])::"memory");
  }
}

#define SLUICE_FRAGMENT(c, n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define SLUICE_FRAGMENTS_8(c, n)                                                       \
  SLUICE_FRAGMENT(c, n), SLUICE_FRAGMENT(c, n + 1), SLUICE_FRAGMENT(c, n + 2),         \
      SLUICE_FRAGMENT(c, n + 3), SLUICE_FRAGMENT(c, n + 4), SLUICE_FRAGMENT(c, n + 5), \
      SLUICE_FRAGMENT(c, n + 6), SLUICE_FRAGMENT(c, n + 7)

/// c = a · bᵀ, or c += a · bᵀ if it `adds`, of 64 × 16 and N × 16 numbers in shared memory.
///@{
__device__ inline void multiply_shared(__half, float (&c)[8][4], std::uint64_t a, std::uint64_t b,
                                       bool adds) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %34, 0; "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "%32, %33, p, 1, 1, 0, 0;}"
      : SLUICE_FRAGMENTS_8(c, 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ inline void multiply_shared(__half, float (&c)[16][4], std::uint64_t a, std::uint64_t b,
                                       bool adds) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %66, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "%64, %65, p, 1, 1, 0, 0;}"
      : SLUICE_FRAGMENTS_8(c, 0), SLUICE_FRAGMENTS_8(c, 8)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ inline void multiply_shared(__nv_bfloat16, float (&c)[8][4], std::uint64_t a,
                                       std::uint64_t b, bool adds) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %34, 0; "
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "%32, %33, p, 1, 1, 0, 0;}"
      : SLUICE_FRAGMENTS_8(c, 0)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
__device__ inline void multiply_shared(__nv_bfloat16, float (&c)[16][4], std::uint64_t a,
                                       std::uint64_t b, bool adds) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %66, 0; "
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "%64, %65, p, 1, 1, 0, 0;}"
      : SLUICE_FRAGMENTS_8(c, 0), SLUICE_FRAGMENTS_8(c, 8)
      : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}
///@}

/// c += a · b of 64 × 16 numbers in registers and 16 × N in shared memory.
///@{
__device__ inline void multiply_add_shared(__half, float (&c)[8][4], const std::uint32_t (&a)[4],
                                           std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
      : SLUICE_FRAGMENTS_8(c, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_add_shared(__half, float (&c)[16][4], const std::uint32_t (&a)[4],
                                           std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "{%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
      : SLUICE_FRAGMENTS_8(c, 0), SLUICE_FRAGMENTS_8(c, 8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_add_shared(__nv_bfloat16, float (&c)[8][4],
                                           const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
      : SLUICE_FRAGMENTS_8(c, 0)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_add_shared(__nv_bfloat16, float (&c)[16][4],
                                           const std::uint32_t (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
      "{%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
      : SLUICE_FRAGMENTS_8(c, 0), SLUICE_FRAGMENTS_8(c, 8)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
///@}

#undef SLUICE_FRAGMENT
#undef SLUICE_FRAGMENTS_8

}  // namespace
}  // namespace sluice::operations

#endif
