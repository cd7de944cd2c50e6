// SPDX-License-Identifier: Apache-2.0
#include "actors/rng/rng_library.hpp"

#include "actors/rng/rng_libraries.hpp"

#include <sluice/runtime/error.hpp>

#include <cmath>
#include <limits>
#include <string>

namespace sluice {

void require_valid(const random_description& description) {
  const auto refuse = [](const std::string& what) {
    throw error(errc::invalid_argument, "random: " + what);
  };
  const bool real = description.type == element_type::f32 || description.type == element_type::f64;
  const bool bits = description.distribution == random_distribution::bits;
  if (bits ? description.type != element_type::u32 : !real) {
    refuse(std::string(to_string(description.distribution)) + " has no elements of type " +
           std::string(to_string(description.type)));
  }
  if (description.count > std::numeric_limits<std::size_t>::max() / 2 / size_of(description.type)) {
    refuse("the number of bytes overflows");
  }
  if (description.count != 0 &&
      description.count - 1 > std::numeric_limits<std::uint64_t>::max() - description.offset) {
    refuse("offset + count lies beyond the last element, 2^64 - 1");
  }
  if (description.distribution != random_distribution::normal) {
    if (description.mean != 0 || description.stddev != 1) {
      refuse("only normal numbers have a mean and a standard deviation");
    }
    return;
  }
  if (!std::isfinite(description.mean)) refuse("the mean is not finite");
  if (!std::isfinite(description.stddev) || description.stddev < 0) {
    refuse("the standard deviation is not a finite number from 0");
  }
}

namespace actors {

std::unique_ptr<rng_library> make_rng_library(device_runtime& runtime, stream_ref stream) {
  return runtime.device().id().kind == device_kind::host ? make_host_rng_library(stream)
                                                         : make_cuda_rng_library(stream);
}

}  // namespace actors

}  // namespace sluice
