// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/infer_submission.hpp"

#include "service/front/inference_run.hpp"
#include "service/protocol/request_error.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

namespace sluice::service {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr std::size_t most_bytes_of_short_reply = std::size_t{64} << 10U;

[[nodiscard]] bool is_short(const run_result& result) noexcept {
  std::size_t bytes = 0;
  for (const auto& output : result.outputs) bytes += output.bytes.size();
  return bytes <= most_bytes_of_short_reply;
}

// A later deadline is none. It keeps sums of times in range.
constexpr std::chrono::hours longest_wait{24 * 365};

}  // namespace

infer_submission read_submission(wire_reader bytes, infer_message& message,
                                 const request_sender& sender, const grpc_context& context) {
  const auto now = steady_clock::now();
  parse_infer_message(bytes, message);
  const auto& request = message.request;
  const auto deadline = deadline_of(request, now, sender.deadline);
  auto run = make_run(request, {.model = message.model, .version = message.version}, deadline,
                      sender.connection);
  run.tenant = sender.tenant;
  run.trace = sender.trace;
  message.regions = tensor_regions(request, *context.options.regions, sender.tenant);
  std::vector<std::uint64_t> sizes(request.inputs.size());
  std::transform(request.inputs.begin(), request.inputs.end(), sizes.begin(),
                 [](const request_input& input) { return input.bytes; });
  run.charge = context.options.tenants->charge(
      sender.tenant, std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
  auto inputs = context.backend.allocate(sizes);
  std::vector<std::span<std::byte>> tensors(sizes.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = inputs->tensor(i);
  read_tensors(message, tensors);
  message.elements.clear();
  if (deadline && steady_clock::now() > *deadline) {
    throw request_error(request_status::deadline_exceeded,
                        "the deadline passed before the request was there");
  }
  return {.run = std::move(run), .inputs = std::move(inputs)};
}

boost::asio::thread_pool* reply_threads(grpc_context& context, const infer_message& message,
                                        const run_result& result) {
  if (message.regions.output_bytes(result) > 0) return &context.copy_threads;
  return is_short(result) ? nullptr : &context.senders;
}

std::optional<steady_clock::time_point> call_deadline(system_clock::time_point deadline) {
  const auto now = system_clock::now();
  if (deadline > now + longest_wait) return std::nullopt;
  const auto left = std::max(deadline - now, system_clock::duration(0));
  return steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(left);
}

}  // namespace sluice::service
