// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/runtime/tensor.hpp>

namespace sluice {

/// The answer to a request: the tensor that its operation results in, or the `tensors` if it has
/// several outputs, unless a specialization states another type. It is constructed from the request
/// before the operation is taken out of it, and may change the request, for example to add a
/// target.
template <class Request>
struct request_reply {
  using type = operation_result<Request>;  ///< type of the answer

  /// Needs nothing of the request.
  explicit request_reply(Request&) noexcept {}
  /// The answer with the result of the operation. Called once, on a completion thread; must not
  /// block.
  [[nodiscard]] type operator()(type result) const noexcept { return result; }
};

/// Asks for the requests that wait in front of the lane of an actor, as a `queue_status`.
struct get_queue_status {};

namespace detail {
/// Sent to an actor when its executor shall work.
struct wake {};
/// Sent to the other lanes of an actor when a sender cancels its requests on one lane: what has
/// been launched may be on all of them.
struct cancel_launched {
  std::uint64_t sender = 0;
  std::uint64_t id = 0;
};
/// Asks another lane of an actor for its part of the `queue_status`.
struct get_lane_status {};
}  // namespace detail

/// An actor that runs operations on a lane of its own. It takes each operation alone, or followed
/// by `request_options`.
///
///     request(self, blas, caf::infinite, gemm{.a = a, .b = b});
///     request(self, blas, caf::infinite, gemm{.a = a, .b = b},
///             request_options{.reply = reply_on::enqueued});
///
/// Requests are launched by priority. Among those of one priority, senders take turns, and the
/// requests of one sender keep their order. A request does not pass an earlier one if either of
/// them writes bytes that the other one uses.
///
/// A `bulk` takes many operations in one message. The sender of requests may cancel them with
/// `cancel_request`. `get_queue_status` is answered with a `queue_status`.
template <class... Requests>
using operation_actor =
    caf::typed_actor<takes<typename request_reply<Requests>::type(Requests)>...,
                     takes<typename request_reply<Requests>::type(Requests, request_options)>...,
                     takes<bulk_results(bulk)>, takes<bulk_results(bulk, request_options)>,
                     takes<void(cancel_request)>, takes<queue_status(get_queue_status)>>;

template <>
struct local_message<detail::cancel_launched> : std::true_type {};
template <>
struct local_message<tensor> : std::true_type {};
template <>
struct local_message<tensors> : std::true_type {};
template <>
struct local_message<bulk_results> : std::true_type {};

}  // namespace sluice

SLUICE_MESSAGES(sluice_operations, 1050, sluice::detail::wake, sluice::tensor, sluice::tensors,
                sluice::request_options, sluice::cancel_request, sluice::get_queue_status,
                sluice::queue_status, sluice::bulk, sluice::bulk_results,
                sluice::detail::cancel_launched, sluice::detail::get_lane_status)
