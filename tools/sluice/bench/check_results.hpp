// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/plain_calls.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/tensor.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Compares two tensors of real or complex f32 numbers. @throws error `library_failure` that says
/// what is wrong if their relative difference in the 2-norm is more than rounding
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
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < floats(left).size(); ++i) {
    const double should_be = floats(right)[i];
    difference += (floats(left)[i] - should_be) * (floats(left)[i] - should_be);
    size += should_be * should_be;
  }
  if (std::sqrt(difference) <= 1e-5 * std::sqrt(size)) return;
  throw error(errc::library_failure,
              fmt::format("{} is wrong by {:.2g}", what, std::sqrt(difference / size)));
}

inline const tensor& result_of(const tensor& reply) {
  return reply;
}
inline const tensor& result_of(const tensors& reply) {
  return reply.front();
}

/// Sends all `requests` at once, as the clients that were measured do, and compares a random sample
/// of the results with those of plain calls. `add_plain(calls, request)` adds the calls for a
/// request and returns their result. `what` names a result.
/// @throws error `library_failure` if one is wrong
/// @throws error the error of a reply
template <class Reply, class Handle, class Request, class AddPlain>
void check_sample(bench_run& run, const Handle& target, const std::vector<Request>& requests,
                  const AddPlain& add_plain, const std::string& what) {
  auto& system = run.current.system();
  caf::scoped_actor self{system};
  std::vector<decltype(sluice::request(self, target, caf::infinite, requests.front()))> pending;
  pending.reserve(requests.size());
  for (const auto& request : requests) {
    pending.push_back(sluice::request(self, target, caf::infinite, request));
  }
  std::vector<Reply> replies;
  std::optional<error> failure;
  for (auto& answer : pending) {
    std::move(answer).receive([&](Reply& reply) { replies.push_back(std::move(reply)); },
                              [&](const caf::error& why) { failure = reply_error(system, why); });
  }
  if (failure) throw *failure;

  std::mt19937_64 random{std::random_device()()};
  std::uniform_int_distribution<std::size_t> pick(0, requests.size() - 1);
  for (int checked = 0; checked < 8; ++checked) {
    const auto i = pick(random);
    plain_calls calls(run.runtime());
    const tensor expected = add_plain(calls, requests[i]);
    calls.end_set();
    calls.run(1);
    require_equal(run.current, result_of(replies[i]), expected, what);
  }
}

}  // namespace sluice::cli
