// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/models/model_run.hpp"
#include "operations/models/program_cache.hpp"
#include "operations/models/served_model.hpp"

#include <sluice/envelope/timer.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::detail {

/// A request to run a model, which waits for its program. It is answered exactly once: by `pass_on`
/// or by `send_error`.
class model_request {
 public:
  /// A request of `client` for results in the memory of the device or of the host.
  model_request(request_options client_options, request_sender client, bool wants_host_memory)
      : options(std::move(client_options)), sender(client), to_host(wants_host_memory) {}
  model_request(const model_request&) = delete;
  model_request& operator=(const model_request&) = delete;
  virtual ~model_request() = default;

  void fail(const error& why) noexcept {
    is_answered = true;
    inputs.clear();  // the client that gets the error shares its memory with nobody
    key.reset();
    unpadded_key.reset();
    send_error(why);
  }
  /// Has the program run. If it throws, the request is not answered.
  void run(model_run&& run) {
    // The values that are bound are not used any more.
    key.reset();
    unpadded_key.reset();
    inputs.clear();
    pass_on(std::move(run));
    is_answered = true;
  }

  std::shared_ptr<served_model> model{};
  std::optional<program_key> key{};
  std::vector<run_input> inputs{};       // by input of the model
  std::vector<std::uint32_t> outputs{};  // of the model, that are wanted; empty: all
  // If the inputs are padded: the key of the inputs as they are, and their results, by output of
  // the model.
  std::optional<program_key> unpadded_key{};
  std::vector<tensor_spec> unpadded_results{};
  request_options options;
  const request_sender sender;
  const bool to_host;
  std::size_t bytes = 0;                            // of its inputs in host memory
  std::shared_ptr<program_cache::entry> awaited{};  // the program that it waits for
  timer::ticket alarm{};                            // of its deadline, while it waits
  timer::time_point wait_start{};
  bool is_answered = false;

 protected:
  /// Answers with `cancelled` unless the request has been answered. Called by the destructors of
  /// derived classes.
  void drop() noexcept {
    if (is_answered) return;
    fail(*failure_of([] { throw error(errc::cancelled, "the request was dropped"); }));
  }

 private:
  /// Passes the run and the options of the request on to what answers it.
  /// @throws error if it cannot
  virtual void pass_on(model_run&& run) = 0;
  virtual void send_error(const error& why) noexcept = 0;
};

}  // namespace sluice::detail
