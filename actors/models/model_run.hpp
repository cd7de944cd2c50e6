// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/models/corner_copy.hpp"

#include <sluice/actors/caf.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/program.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {
namespace detail {

/// A `run` that is answered with some of its results, in this order. The model actor sends it to
/// the program actor.
struct model_run {
  program what{};
  std::vector<run_input> inputs{};
  std::vector<std::uint32_t> outputs{};  ///< numbers of outputs; empty: all
  /// The shapes that the results are cut to, by output of the program; empty: they are not cut.
  std::vector<extents> shapes{};
};
/// Likewise, a `run_to_host`.
struct model_run_to_host {
  program what{};
  std::vector<run_input> inputs{};
  std::vector<std::uint32_t> outputs{};
  std::vector<extents> shapes{};
};

[[nodiscard]] inline run to_operation(model_run request) {
  return {.what = std::move(request.what), .inputs = std::move(request.inputs)};
}
[[nodiscard]] inline run_to_host to_operation(model_run_to_host request) {
  return {.what = std::move(request.what), .inputs = std::move(request.inputs)};
}
template <class Request>
[[nodiscard]] std::size_t host_bytes_of_model_run(const Request& request) noexcept {
  std::size_t sum = request.inputs.capacity() * sizeof(run_input) +
                    request.outputs.capacity() * sizeof(std::uint32_t) +
                    request.shapes.capacity() * sizeof(extents);
  for (const auto& input : request.inputs) sum += input.on_host().bytes();
  return sum;
}
[[nodiscard]] inline std::size_t host_bytes_of(const model_run& request) noexcept {
  return host_bytes_of_model_run(request);
}
[[nodiscard]] inline std::size_t host_bytes_of(const model_run_to_host& request) noexcept {
  return host_bytes_of_model_run(request);
}

/// Picks the results of a run that are wanted, without what padded inputs have added to them.
template <class Tensors>
class output_choice {
 public:
  output_choice(std::vector<std::uint32_t>&& outputs, std::vector<extents>&& shapes) noexcept
      : outputs_(std::move(outputs)), shapes_(std::move(shapes)) {}
  [[nodiscard]] Tensors operator()(Tensors&& results) const {
    if (outputs_.empty() && shapes_.empty()) return std::move(results);
    Tensors chosen;
    const auto add = [&](std::size_t output) {
      chosen.push_back(shapes_.empty() ? results[output]
                                       : cut_to(results[output], shapes_[output]));
    };
    for (const auto output : outputs_) add(output);
    for (std::size_t i = 0; outputs_.empty() && i < results.size(); ++i) add(i);
    return chosen;
  }

 private:
  std::vector<std::uint32_t> outputs_;
  std::vector<extents> shapes_;
};

}  // namespace detail

template <>
struct request_reply<detail::model_run> {
  using type = tensors;

  explicit request_reply(detail::model_run& request) noexcept
      : choice_(std::move(request.outputs), std::move(request.shapes)) {}
  [[nodiscard]] tensors operator()(tensors results) const { return choice_(std::move(results)); }

 private:
  detail::output_choice<tensors> choice_;
};
template <>
struct request_reply<detail::model_run_to_host> {
  using type = host_tensors;

  explicit request_reply(detail::model_run_to_host& request) noexcept
      : choice_(std::move(request.outputs), std::move(request.shapes)) {}
  [[nodiscard]] host_tensors operator()(host_tensors results) const {
    return choice_(std::move(results));
  }

 private:
  detail::output_choice<host_tensors> choice_;
};

}  // namespace sluice

SLUICE_MESSAGES(sluice_model_runs, 1190, sluice::detail::model_run,
                sluice::detail::model_run_to_host)
