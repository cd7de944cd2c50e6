// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/program.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>

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
};
/// Likewise, a `run_to_host`.
struct model_run_to_host {
  program what{};
  std::vector<run_input> inputs{};
  std::vector<std::uint32_t> outputs{};
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
                    request.outputs.capacity() * sizeof(std::uint32_t);
  for (const auto& input : request.inputs) sum += input.on_host().bytes();
  return sum;
}
[[nodiscard]] inline std::size_t host_bytes_of(const model_run& request) noexcept {
  return host_bytes_of_model_run(request);
}
[[nodiscard]] inline std::size_t host_bytes_of(const model_run_to_host& request) noexcept {
  return host_bytes_of_model_run(request);
}

/// Picks the results of a run that are wanted.
template <class Tensors>
class output_choice {
 public:
  explicit output_choice(std::vector<std::uint32_t>&& outputs) noexcept
      : outputs_(std::move(outputs)) {}
  [[nodiscard]] Tensors operator()(Tensors&& results) const {
    if (outputs_.empty()) return std::move(results);
    Tensors chosen;
    for (const auto output : outputs_) chosen.push_back(results[output]);
    return chosen;
  }

 private:
  std::vector<std::uint32_t> outputs_;
};

}  // namespace detail

template <>
struct request_reply<detail::model_run> {
  using type = tensors;

  explicit request_reply(detail::model_run& request) noexcept
      : choice_(std::move(request.outputs)) {}
  [[nodiscard]] tensors operator()(tensors results) const { return choice_(std::move(results)); }

 private:
  detail::output_choice<tensors> choice_;
};
template <>
struct request_reply<detail::model_run_to_host> {
  using type = host_tensors;

  explicit request_reply(detail::model_run_to_host& request) noexcept
      : choice_(std::move(request.outputs)) {}
  [[nodiscard]] host_tensors operator()(host_tensors results) const {
    return choice_(std::move(results));
  }

 private:
  detail::output_choice<host_tensors> choice_;
};

}  // namespace sluice

SLUICE_MESSAGES(sluice_model_runs, 1190, sluice::detail::model_run,
                sluice::detail::model_run_to_host)
