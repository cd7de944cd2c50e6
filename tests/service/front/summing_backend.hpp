// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service::test {

/// A backend whose models, all but "plain" and "missing", compute y = x + s and the next state
/// t = y. A test says when a run ends and how. An x of `misshaping` makes a state of another shape.
class summing_backend final : public model_backend {
 public:
  static constexpr std::int64_t misshaping = -1;

  [[nodiscard]] bool is_ready() const override { return true; }
  [[nodiscard]] model_metadata describe(std::string_view /*model*/,
                                        std::string_view /*version*/) const override {
    return {};
  }
  [[nodiscard]] model_config configuration(std::string_view /*model*/,
                                           std::string_view /*version*/) const override {
    return {};
  }
  [[nodiscard]] std::vector<repository_entry> index() const override { return {}; }
  void load(std::string /*model*/, load_answer done) override { done(std::nullopt); }
  void unload(std::string /*model*/, load_answer done) override { done(std::nullopt); }
  [[nodiscard]] state_descriptor state_of(std::string_view model,
                                          std::string_view /*version*/) const override {
    if (model == "missing") throw request_error(request_status::not_found, "no such model");
    const std::scoped_lock lock(mutex_);
    state_descriptor state{.version = "3", .content = content_};
    if (model == "plain") return state;
    state.tensors.push_back({.input = "s", .output = "t", .type = datatype::int64, .shape = {1}});
    state.idle_timeout = std::chrono::seconds(60);
    return state;
  }
  [[nodiscard]] std::unique_ptr<input_memory> allocate(
      std::span<const std::uint64_t> sizes) override {
    if (is_full) throw request_error(request_status::resource_exhausted, "full");
    return std::make_unique<memory>(sizes);
  }
  number submit(run_request run, std::unique_ptr<input_memory> inputs,
                std::function<void(run_result)> done) override {
    const auto chosen = [&] {
      const std::scoped_lock lock(mutex_);
      runs_[++numbers_] = {std::move(run), std::move(inputs), std::move(done)};
      changed_.notify_all();
      return numbers_;
    }();
    if (is_prompt) end(chosen);
    return chosen;
  }
  void cancel(number request) noexcept override { end(request, request_status::cancelled); }

  /// Ends a run, if it is there: with its results, or with an error.
  void end(number request, std::optional<request_status> failure = {}) {
    held_run run;
    {
      const std::scoped_lock lock(mutex_);
      auto node = runs_.extract(request);
      if (node.empty()) return;
      run = std::move(node.mapped());
      if (run.request.content != 0 && run.request.content != content_) {
        failure = request_status::aborted;
      }
    }
    auto done = std::move(run.done);
    if (failure) return done({.error = request_error(*failure, "failed by the test")});
    done(result_of(std::move(run)));
  }
  /// Ends the first run, or waits for one. Returns false after `close`.
  bool end_any(std::optional<request_status> failure = {}) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_closed_ || !runs_.empty(); });
    if (runs_.empty()) return false;
    const auto first = runs_.begin()->first;
    lock.unlock();
    end(first, failure);
    return true;
  }
  void close() {
    const std::scoped_lock lock(mutex_);
    is_closed_ = true;
    changed_.notify_all();
  }
  [[nodiscard]] std::vector<number> held() const {
    const std::scoped_lock lock(mutex_);
    std::vector<number> numbers;
    for (const auto& [number, run] : runs_) numbers.push_back(number);
    return numbers;
  }
  /// Serves another file of the models.
  void replace_models() {
    const std::scoped_lock lock(mutex_);
    ++content_;
  }

  bool is_prompt = true;  ///< whether runs end within `submit`
  bool is_full = false;   ///< whether there is no memory for inputs

 private:
  class memory final : public input_memory {
   public:
    explicit memory(std::span<const std::uint64_t> sizes) {
      for (const auto size : sizes) tensors_.emplace_back(size);
    }
    [[nodiscard]] std::span<std::byte> tensor(std::size_t index) noexcept override {
      return tensors_[index];
    }

   private:
    std::vector<std::vector<std::byte>> tensors_{};
  };
  struct held_run {
    run_request request{};
    std::unique_ptr<input_memory> inputs{};
    std::function<void(run_result)> done{};
  };

  [[nodiscard]] static run_result result_of(held_run run) {
    std::map<std::string, std::int64_t> values;
    for (std::size_t i = 0; i < run.request.inputs.size(); ++i) {
      std::memcpy(&values[run.request.inputs[i].name], run.inputs->tensor(i).data(),
                  sizeof(std::int64_t));
    }
    const auto sums = std::make_shared<std::vector<std::int64_t>>(2, values["x"] + values["s"]);
    auto names = run.request.outputs;
    if (names.empty()) names = {"y", "t"};
    run_result result{.memory = sums, .version = run.request.version};
    for (const auto& name : names) {
      const std::size_t extent = name == "t" && values["x"] == misshaping ? 2 : 1;
      result.outputs.push_back({.name = name,
                                .type = datatype::int64,
                                .shape = {static_cast<std::int64_t>(extent)},
                                .bytes = std::as_bytes(std::span(*sums).first(extent))});
    }
    return result;
  }

  mutable std::mutex mutex_{};
  std::condition_variable changed_{};
  std::map<number, held_run> runs_{};
  number numbers_ = 0;
  std::uint32_t content_ = 1;
  bool is_closed_ = false;
};

}  // namespace sluice::service::test
