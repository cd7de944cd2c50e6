// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/request_options.hpp>

#include <cstddef>
#include <map>

namespace sluice::detail {

/// The number of requests that wait for programs of the models of one name, which is bounded, in
/// all and for each sender. Not thread-safe.
class waiting_count {
 public:
  /// Counts a request whose inputs take so much host memory.
  /// @throws error `overloaded` if too many wait already
  /// @throws std::bad_alloc if there is no memory
  void add(request_sender sender, std::size_t bytes);
  void remove(request_sender sender, std::size_t bytes) noexcept;
  [[nodiscard]] std::size_t requests() const noexcept { return requests_; }

 private:
  std::size_t requests_ = 0;
  std::size_t bytes_ = 0;
  std::map<request_sender, std::size_t> requests_of_sender_;
};

}  // namespace sluice::detail
