// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/runtime/error.hpp>

#include <type_traits>
#include <utility>

namespace sluice {

/// Sends a request to `target`, and answers the current request of the actor `self` with
/// `convert(result)`.
///
///     return [=](const classify& query) {
///       return answer_with(self, programs, to_label, run_to_host{scores, {query.features}});
///     };
///
/// The result is the result of the handler. The actor takes further messages meanwhile. If the
/// request fails, or `convert` throws, the answer is that error. `message` is a request with a
/// `request_reply`, such as an operation or a `run`, and may be followed by `request_options`. Use
/// `delegate` where nothing is to be converted. Only the actor `self` may call it.
template <class Self, class Handle, class Convert, class Request, class... Options>
[[nodiscard]] auto answer_with(Self self, const Handle& target, Convert convert, Request&& message,
                               Options&&... options) {
  using result = typename request_reply<std::decay_t<Request>>::type;
  constexpr bool is_converter = std::is_invocable_v<Convert&, const result&>;
  static_assert(is_converter,
                "answer_with: the converter takes the result of the request, which is tensors for "
                "run, host_tensors for run_to_host, and a tensor for an operation with one output");
  if constexpr (is_converter) {
    using answer = std::decay_t<std::invoke_result_t<Convert&, const result&>>;
    auto promise = self->template make_response_promise<answer>();
    request(self, target, caf::infinite, std::forward<Request>(message),
            std::forward<Options>(options)...)
        .then(
            [promise, convert = std::move(convert)](const result& content) mutable {
              try {
                promise.deliver(convert(content));
              } catch (...) {
                promise.deliver(to_caf_error(current_error()));
              }
            },
            [promise](const caf::error& why) mutable { promise.deliver(why); });
    return caf::result<answer>(promise);
  } else {
    return caf::result<caf::message>(caf::error());  // not compiled
  }
}

}  // namespace sluice
