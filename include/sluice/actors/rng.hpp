// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/rng_types.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice {

/// Which part of which sequence. A sequence is determined by the seed, the distribution and the
/// element type; a request for elements [offset, offset + count) equals that part of the whole, on
/// every device. A sequence has 2^64 elements.
struct random_range {
  std::uint64_t seed = 0;    ///< selects the sequence
  std::uint64_t offset = 0;  ///< in elements
  std::size_t count = 0;     ///< in elements
};

/// Asks for 32-bit words of Philox4x32-10 in cuRAND's default order; equal to cuRAND's in every
/// bit. The reply is `output`, allocated when left out. Errors of the random requests:
/// `invalid_argument` (the range ends beyond the sequence, `output` too small or on another device,
/// mean or stddev out of range), `stale_ref`, `out_of_memory`, `library_failure`, `shutting_down`,
/// `device_lost`.
struct random_bits {
  random_range range{};                 ///< which part of the sequence
  gpu_ref<std::uint32_t> output{};      ///< `range.count` elements, allocated when left out
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// Asks for numbers uniform in (0, 1]; equal to cuRAND's in every bit.
template <class T>
struct random_uniform {
  random_range range{};                 ///< which part of the sequence
  gpu_ref<T> output{};                  ///< `range.count` elements, allocated when left out
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// Asks for normal numbers (Box–Muller): z · stddev, rounded, plus mean. The devices agree within 4
/// ulp of z.
template <class T>
struct random_normal {
  random_range range{};                 ///< which part of the sequence
  double mean = 0;                      ///< finite
  double stddev = 1;                    ///< finite, at least 0
  gpu_ref<T> output{};                  ///< `range.count` elements, allocated when left out
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// The library actor for random numbers: cuRAND's Philox functions in a kernel of our own on a GPU,
/// Random123 on the host. It holds no generator state: every request says where it begins.
using rng_actor = caf::typed_actor<caf::replies_to<random_bits>::with<gpu_ref<std::uint32_t>>,
                                   caf::replies_to<random_uniform<float>>::with<gpu_ref<float>>,
                                   caf::replies_to<random_uniform<double>>::with<gpu_ref<double>>,
                                   caf::replies_to<random_normal<float>>::with<gpu_ref<float>>,
                                   caf::replies_to<random_normal<double>>::with<gpu_ref<double>>,
                                   caf::reacts_to<caf::atom_constant<caf::atom("room")>>>;

/// Starts an rng actor on a thread of its own, with a lane of its own on `service`. @throws error
/// as `spawn_blas`
[[nodiscard]] SLUICE_EXPORT rng_actor spawn_rng(caf::actor_system& system,
                                                std::shared_ptr<device_service> service,
                                                std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(sluice::random_bits)
namespace caf {
template <class T>
struct allowed_unsafe_message_type<sluice::random_uniform<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<sluice::random_normal<T>> : std::true_type {};
}  // namespace caf
