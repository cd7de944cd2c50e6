// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/core/member_copies.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace sluice::test {

/// While it exists, members of batches are copied by tasks of host streams: for a host device that
/// presents itself as a GPU. One at a time, and without lanes that copy.
class host_member_copies {
 public:
  host_member_copies()
      : replaced_(std::exchange(operations::member_copies(), {&load, &gather, &scatter})) {}
  host_member_copies(const host_member_copies&) = delete;
  host_member_copies& operator=(const host_member_copies&) = delete;
  ~host_member_copies() { operations::member_copies() = replaced_; }

 private:
  static void load(lane_libraries&) {}
  static void gather(lane_libraries& libraries, std::span<const cuda::member_row> sources,
                     void* destination, const cuda::member_places& places) {
    libraries.runtime().device().notify(
        libraries.stream().native(),
        [all = std::vector(sources.begin(), sources.end()), destination, places] {
          auto* const bytes = static_cast<std::byte*>(destination);
          std::memset(bytes, 0, places.count * places.rows * places.row_bytes);
          for (std::size_t i = 0; i < all.size(); ++i) {
            for (std::size_t row = 0; row < places.rows; ++row) {
              std::memcpy(bytes + i * places.place_stride() + row * places.row_stride(),
                          static_cast<const std::byte*>(all[i].address) + row * all[i].bytes,
                          all[i].bytes);
            }
          }
        });
  }
  static void scatter(lane_libraries& libraries, const void* source,
                      std::span<const cuda::member_row> destinations,
                      const cuda::member_places& places) {
    libraries.runtime().device().notify(
        libraries.stream().native(),
        [all = std::vector(destinations.begin(), destinations.end()), source, places] {
          const auto* const bytes = static_cast<const std::byte*>(source);
          for (std::size_t i = 0; i < all.size(); ++i) {
            for (std::size_t row = 0; row < places.rows; ++row) {
              std::memcpy(static_cast<std::byte*>(all[i].address) + row * all[i].bytes,
                          bytes + i * places.place_stride() + row * places.row_stride(),
                          all[i].bytes);
            }
          }
        });
  }

  operations::member_copy_functions replaced_;
};

}  // namespace sluice::test
