// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/seam.hpp"

#include <sluice/actors/caf.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace sluice {
namespace detail {

/// A `model_run` whose results are copied to host memory. The model actor sends both to the program
/// actor.
struct model_run_to_host {
  model_run run{};
};

[[nodiscard]] inline run to_operation(model_run request) {
  return {.what = std::move(request.what), .inputs = std::move(request.inputs)};
}
[[nodiscard]] inline run_to_host to_operation(model_run_to_host request) {
  return {.what = std::move(request.run.what), .inputs = std::move(request.run.inputs)};
}
[[nodiscard]] inline std::size_t host_bytes_of(const model_run& request) noexcept {
  std::size_t sum = request.inputs.capacity() * sizeof(run_input) +
                    request.outputs.capacity() * sizeof(std::uint32_t) +
                    request.shapes.capacity() * sizeof(extents);
  for (const auto& input : request.inputs) sum += input.on_host().bytes();
  return sum;
}
[[nodiscard]] inline std::size_t host_bytes_of(const model_run_to_host& request) noexcept {
  return host_bytes_of(request.run);
}

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
      : choice_(std::move(request.run.outputs), std::move(request.run.shapes)) {}
  [[nodiscard]] host_tensors operator()(host_tensors results) const {
    return choice_(std::move(results));
  }

 private:
  detail::output_choice<host_tensors> choice_;
};

}  // namespace sluice

SLUICE_MESSAGES(sluice_model_runs, 1190, sluice::detail::model_run,
                sluice::detail::model_run_to_host)
