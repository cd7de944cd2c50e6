// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/front/sequence_table.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace sluice::service {

class sequence_dispatch;

/// Serves sequences of requests by a backend that has none: it keeps the state of the model between
/// the requests of a sequence. Other requests are passed on as they are.
///
/// The requests of a sequence run in the order of `submit`, one at a time; the others wait. The
/// state is a further input of each run, and an output of it is the next state. A run that fails
/// leaves the state as it was. A first request that fails ends its sequence. See
/// docs/concepts/service.md for the errors. Thread-safe.
class sequence_backend final : public model_backend {
 public:
  /// @param backend  outlives this
  /// @param now  the clock by which sequences expire
  explicit sequence_backend(
      model_backend& backend, sequence_limits limits = {},
      std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now);
  sequence_backend(const sequence_backend&) = delete;
  sequence_backend& operator=(const sequence_backend&) = delete;
  /// Answers the requests that wait with `unavailable`. Those that run are answered by the backend.
  ~sequence_backend() override;

  [[nodiscard]] bool is_ready() const override;
  [[nodiscard]] model_metadata describe(std::string_view model,
                                        std::string_view version) const override;
  [[nodiscard]] model_config configuration(std::string_view model,
                                           std::string_view version) const override;
  [[nodiscard]] std::vector<repository_entry> index() const override;
  void load(std::string model, load_answer done) override;
  void unload(std::string model, load_answer done) override;
  [[nodiscard]] backend_status status() const override;
  [[nodiscard]] state_descriptor state_of(std::string_view model,
                                          std::string_view version) const override;
  [[nodiscard]] std::unique_ptr<input_memory> allocate(
      std::span<const std::uint64_t> sizes) override;
  number submit(run_request request, std::unique_ptr<input_memory> inputs,
                std::function<void(run_result)> done) override;
  void cancel(number request) noexcept override;

  /// Releases the states of expired sequences, and answers requests whose deadline passed while
  /// they waited. To be called often; a request never meets an expired sequence, however rarely
  /// this is called.
  void expire();
  [[nodiscard]] sequence_statistics statistics() const;

 private:
  model_backend& backend_;
  const std::shared_ptr<sequence_dispatch> dispatch_;
  std::atomic<number> next_number_{1};
};

}  // namespace sluice::service
