// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/element_type.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace sluice::cuda {

/// Enqueues algorithm number `i` on the stream of the lane. Returns whether the library takes it.
using enqueue_algorithm = std::function<bool(std::size_t i)>;

/// Measures `count` algorithms in turns on the stream of a lane, whose device is the current one,
/// and waits for that. Returns the number of the fastest one: 0, unless another one takes at least
/// 2 % less time than the first. Nothing if one call takes more than 5 ms, or if the service has
/// other work: before each measurement it waits for up to 2 ms until nothing is in flight, and a
/// measurement during which something was is repeated twice.
///
/// Each algorithm runs once to load its kernels and once more. Those that take at most twice as
/// long as the first then run in three rounds of 2 to 16 calls, about half a millisecond; the least
/// time counts. With eight algorithms that is about 20 ms for short calls, and 0.3 s for calls of 5
/// ms.
/// @throws error `library_failure`, `device_lost`
[[nodiscard]] std::optional<std::size_t> fastest_algorithm(lane_libraries& libraries,
                                                           std::size_t count,
                                                           const enqueue_algorithm& enqueue);

/// Enqueues random numbers for a trial: zeros take a GPU less power, and therefore less time than
/// real data. Numbers of floating-point types of up to 32 bits are between 0.5 and 1 in size.
/// `address` is aligned to 4 bytes, and `bytes` is a multiple of 4.
/// @throws error `library_failure`
void fill_with_noise(void* address, std::size_t bytes, element_type type, stream_ref stream);

/// The text of a choice among algorithms for `algorithm_choices`: the library with its version, the
/// GPU, the version of the trials, and `key`, the bytes of a call's key.
[[nodiscard]] std::string subject_of_choice(const std::string& library, const device& device,
                                            const void* key, std::size_t bytes);

}  // namespace sluice::cuda
