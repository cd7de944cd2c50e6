// SPDX-License-Identifier: Apache-2.0
// The requests for runs of programs: their sizes, and how they reach an executor.
#include "operations/program/program_graph.hpp"
#include "operations/program/program_request.hpp"

#include <sluice/operations/executor.hpp>
#include <sluice/operations/run.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::detail {
namespace {

std::size_t host_bytes_of_inputs(const std::vector<run_input>& inputs) noexcept {
  std::size_t sum = inputs.capacity() * sizeof(run_input);
  for (const auto& input : inputs) sum += input.on_host() ? input.on_host().bytes() : 0;
  return sum;
}

}  // namespace

std::size_t host_bytes_of(const run& request) noexcept {
  return host_bytes_of_inputs(request.inputs) + request.outputs.capacity() * sizeof(operand) +
         request.scalars.capacity() * sizeof(scalar);
}
std::size_t host_bytes_of(const run_to_host& request) noexcept {
  return host_bytes_of_inputs(request.inputs) + request.scalars.capacity() * sizeof(scalar) +
         request.outputs.capacity() * sizeof(host_tensor);
}
std::size_t host_bytes_of(const prepare& request) noexcept {
  return request.inputs.capacity() * sizeof(tensor_spec) +
         request.outputs.capacity() * sizeof(std::optional<tensor_spec>) +
         request.scalars.capacity() * sizeof(scalar);
}
std::size_t host_bytes_of_share(const program& program) noexcept {
  // A quarter of what the messages of a sender may keep, so that runs of a large program can wait.
  constexpr std::size_t most_bytes = std::size_t{32} << 20U;
  const auto& graph = program.graph();
  if (!graph) return 0;
  const auto bytes = std::min(graph->bytes(), most_bytes);
  const auto holders = static_cast<std::size_t>(std::max(1L, graph.use_count()));
  // The shares of the second holder, of the third and so on, together, approach the whole.
  return holders == 1 ? bytes : bytes / holders / (holders - 1);
}

}  // namespace sluice::detail

namespace sluice {

void executor::submit(sluice::prepare request, const request_options& options,
                      reply_token<prepared> token, request_sender sender) noexcept {
  try {
    request_options settings = options;
    submit(detail::make_owned<operations::prepare_request, detail::operation_request>(
        memory(), std::move(request), std::move(settings), sender, reply_token<prepared>(token)));
  } catch (...) {
    request = {};
    token.fail(current_error());
  }
}
void executor::submit(run_to_host request, const request_options& options,
                      reply_token<host_tensors> token, request_sender sender) noexcept {
  try {
    auto downloads = std::make_shared<host_tensors>();
    request_options settings = options;
    submit(detail::make_owned<operations::program_request, detail::operation_request>(
        memory(), memory(),
        run{.what = std::move(request.what),
            .inputs = std::move(request.inputs),
            .scalars = std::move(request.scalars)},
        std::move(settings), sender,
        reply_token<tensors>::from(
            [token, downloads](tensors results) {
              results = {};  // the client that has its answer can allocate their memory again
              token.succeed(std::move(*downloads));
            },
            [token](const error& failure) { token.fail(failure); }),
        downloads, std::move(request.outputs)));
  } catch (...) {
    request = {};
    token.fail(current_error());
  }
}
void executor::submit(run request, const request_options& options, reply_token<tensors> token,
                      request_sender sender) noexcept {
  try {
    request_options settings = options;
    submit(detail::make_owned<operations::program_request, detail::operation_request>(
        memory(), memory(), std::move(request), std::move(settings), sender,
        reply_token<tensors>(token)));
  } catch (...) {
    request = {};
    token.fail(current_error());
  }
}

}  // namespace sluice
