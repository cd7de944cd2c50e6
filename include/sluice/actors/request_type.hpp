// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/reply.hpp>
#include <sluice/envelope/recycled_memory.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/bounded_inbox.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/host_bytes.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace sluice::detail {

/// The lane that runs a request, as far as the request's type must know it.
class request_lane {
 public:
  request_lane() = default;
  request_lane(const request_lane&) = delete;
  request_lane& operator=(const request_lane&) = delete;

  /// The executor of the lane, which is made now if the lane is closed.
  /// @throws error as `executor`
  [[nodiscard]] virtual executor& open_executor() = 0;
  /// The memory of replies.
  [[nodiscard]] virtual recycled_memory& replies() noexcept = 0;

 protected:
  ~request_lane() = default;
};

/// What an actor knows of a type of request. Actors tell types by their ids, so that all of them
/// run the same code; only `submit` depends on the type.
struct request_type {
  element_type_id id;  ///< of the request in a message
  /// What the request in `content` takes while it waits.
  message_size (*size)(const message_content& content) noexcept;
  /// Runs the request in `content`, which no other message shares, on `lane`, and has it answered
  /// at `address`.
  void (*submit)(message_content& content, const request_options& options, request_sender sender,
                 reply_address address, request_lane& lane) noexcept;
};

/// Whether a run of a program is copied from or to host memory. Several lanes copy faster than one.
template <class Request>
[[nodiscard]] bool has_host_copies(const Request& request) noexcept {
  if constexpr (std::is_same_v<executor_result_t<Request>, host_tensors>) {
    return true;
  } else if constexpr (requires { request.inputs.front().on_host(); }) {
    return std::any_of(request.inputs.begin(), request.inputs.end(),
                       [](const auto& input) { return static_cast<bool>(input.on_host()); });
  } else {
    return false;
  }
}

/// `request_type::size` of a type.
template <class Request>
[[nodiscard]] message_size size_of_request(const message_content& content) noexcept {
  const auto& request = content.template get_as<Request>(0);
  message_size size{.bytes = sizeof(Request)};
  if constexpr (requires { Request::members(); }) {
    size.bytes += host_bytes_of(request);
  } else if constexpr (requires { host_bytes_of_share(request.what); }) {
    size.bytes += host_bytes_of(request) + host_bytes_of_share(request.what);
    size.steps = request.what.steps();
    if (!has_host_copies(request)) size.program = request.what.graph().get();
  }
  return size;
}

/// `request_type::submit` of a type.
template <class Request>
void submit_request(message_content& content, const request_options& options, request_sender sender,
                    reply_address address, request_lane& lane) noexcept {
  using result = executor_result_t<Request>;
  using receiver = operation_receiver<Request>;
  static_assert(std::is_same_v<std::decay_t<std::invoke_result_t<request_reply<Request>&, result>>,
                               typename request_reply<Request>::type>,
                "request_reply: its call operator must return the type that it states");
  auto& request = content.template get_mutable_as<Request>(0);
  auto token = make_token<result>(std::move(address), [&](const reply_address& target) {
    return reply_token<result>::template allocate<receiver>(
        recycling_allocator<receiver>(lane.replies()), target, request);
  });
  answer_failures(token, [&] {
    lane.open_executor().submit(take_operation_of(request), options, token, sender);
  });
}

template <class Request>
[[nodiscard]] request_type request_type_of() noexcept {
  (void)sizeof(declaration_check<is_message_type<Request>, Request>);
  return {id_of_element_type<Request>(), &size_of_request<Request>, &submit_request<Request>};
}

}  // namespace sluice::detail
