// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/request_times.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/tensor.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// The relative difference of numbers from what they should be, in the 2-norm.
class relative_difference {
 public:
  void add(double found, double expected) {
    difference_ += (found - expected) * (found - expected);
    size_ += expected * expected;
  }
  /// @throws error `library_failure` that says what is wrong if it is more than rounding of f32
  void require_small(const std::string& what) const {
    if (std::sqrt(difference_) <= 1e-5 * std::sqrt(size_)) return;
    throw error(errc::library_failure,
                fmt::format("{} is wrong by {:.2g}", what, std::sqrt(difference_ / size_)));
  }

 private:
  double difference_ = 0;
  double size_ = 0;
};

/// Compares two tensors of real or complex f32 numbers. @throws error `library_failure` that says
/// what is wrong if they differ
inline void require_equal(session& current, const tensor& found, const tensor& expected,
                          const std::string& what) {
  const auto on_host = [&](const tensor& x) {
    return current.ask<host_tensor>(current.device().actor(), download{.x = x});
  };
  const auto floats = [](const host_tensor& x) {
    return std::span(static_cast<const float*>(x.data().get()), x.bytes() / sizeof(float));
  };
  const auto left = on_host(found);
  const auto right = on_host(expected);
  if (left.type() != right.type() || left.shape() != right.shape()) {
    throw error(errc::library_failure, what + " has a wrong type or shape");
  }
  relative_difference difference;
  for (std::size_t i = 0; i < floats(left).size(); ++i) {
    difference.add(floats(left)[i], floats(right)[i]);
  }
  difference.require_small(what);
}

/// Sends `request(i)` for each of `expected` at once, as the clients that were measured do, and
/// compares a random sample of the results with the expected ones. `what` names a result.
/// @throws error `library_failure` if one is wrong
/// @throws error the error of a reply
template <class Reply, class Handle, class Request>
void check_sample(session& current, const Handle& target, const std::vector<tensor>& expected,
                  const Request& request, const std::string& what) {
  caf::scoped_actor self{current.system()};
  const auto send = [&](std::size_t i) {
    return sluice::request(self, target, caf::infinite, request(i));
  };
  std::vector<decltype(send(0))> pending;
  for (std::size_t i = 0; i < expected.size(); ++i) pending.push_back(send(i));
  std::vector<Reply> found;
  found.reserve(pending.size());
  for (auto& one : pending) {
    found.push_back(receive_reply<Reply>(current.system(), std::move(one)));
  }
  std::mt19937_64 random{std::random_device()()};
  for (int checked = 0; checked < 8; ++checked) {
    const auto i = std::uniform_int_distribution<std::size_t>(0, expected.size() - 1)(random);
    if constexpr (std::is_same_v<Reply, tensors>) {
      require_equal(current, found[i].front(), expected[i], what);
    } else {
      require_equal(current, found[i], expected[i], what);
    }
  }
}

}  // namespace sluice::cli
