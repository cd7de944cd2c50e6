// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace sluice::service {

/// A region of system shared memory, as a client registers it.
struct region_description {
  std::string name{};        ///< in the requests of the client
  std::string key{};         ///< the name of the shared memory object, as in shm_open
  std::uint64_t offset = 0;  ///< in the object
  std::uint64_t bytes = 0;
};

}  // namespace sluice::service
