// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/counted_answer.hpp"
#include "service/front/model_backend.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service::test {

/// A request that reached the backend.
struct submitted {
  model_backend::number number = 0;
  run_request run{};
  std::unique_ptr<input_memory> inputs{};
  std::function<void(run_result)> done{};
};

/// A backend that does with requests what a test says. It counts the bytes of inputs that exist.
class scripted_backend final : public model_backend {
 public:
  using script = std::function<void(scripted_backend&, submitted)>;

  /// Each request is passed to `act`, on the thread that submits it.
  explicit scripted_backend(script act) : act_(std::move(act)) {}

  [[nodiscard]] bool is_ready() const override { return is_server_ready; }

  [[nodiscard]] model_metadata describe(std::string_view model,
                                        std::string_view version) const override {
    if (model != "m" || (!version.empty() && version != "1")) {
      throw request_error(request_status::not_found, "no such model: " + std::string(model));
    }
    return {.name = "m", .versions = {"1"}, .platform = "test"};
  }

  [[nodiscard]] model_config configuration(std::string_view model,
                                           std::string_view version) const override {
    (void)describe(model, version);
    return {.name = "m", .inputs = {{.name = "a", .type = datatype::uint8, .dims = {-1}}}};
  }
  [[nodiscard]] std::vector<repository_entry> index() const override {
    return {{.model = "broken", .version = "2", .reason = "it is \"broken\""},
            {.model = "m", .version = "1", .state = serving_state::ready}};
  }
  void load(std::string model, load_answer done) override {
    on_load(std::move(model), std::move(done));
  }
  void unload(std::string model, load_answer done) override {
    on_unload(std::move(model), std::move(done));
  }
  /// The model m with what it has done, and `others`.
  [[nodiscard]] backend_status status() const override {
    backend_status status{.is_ready = is_server_ready, .versions = others};
    status.versions.push_back(
        {.model = "m", .version = 1, .state = serving_state::ready, .statistics = statistics});
    return status;
  }

  [[nodiscard]] std::unique_ptr<input_memory> allocate(
      std::span<const std::uint64_t> sizes) override {
    const std::uint64_t bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    const std::scoped_lock lock(mutex_);
    if (bytes > most_bytes - bytes_) {
      throw request_error(request_status::resource_exhausted, "too many bytes");
    }
    bytes_ += bytes;
    return std::make_unique<memory>(*this, sizes, bytes);
  }

  number submit(run_request run, std::unique_ptr<input_memory> inputs,
                std::function<void(run_result)> done) override {
    done = counted_answer(std::move(done), statistics, 1);
    const number chosen = [&] {
      const std::scoped_lock lock(mutex_);
      const number next = ++numbers_;
      waiting_[next] = done;
      return next;
    }();
    act_(*this, {chosen, std::move(run), std::move(inputs), std::move(done)});
    return chosen;
  }

  void cancel(number request) noexcept override {
    std::function<void(run_result)> done;
    {
      const std::scoped_lock lock(mutex_);
      cancelled_.push_back(request);
      done = waiting_[request];
      changed_.notify_all();
    }
    if (answers_cancelled) {
      done({.error = request_error(request_status::cancelled, "cancelled")});
    }
  }

  /// Keeps the request until the test takes it.
  void hold(submitted request) {
    const std::scoped_lock lock(mutex_);
    held_.push_back(std::move(request));
    changed_.notify_all();
  }
  [[nodiscard]] submitted take_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !held_.empty(); });
    submitted request = std::move(held_.front());
    held_.erase(held_.begin());
    return request;
  }
  void wait_until_cancelled(number request) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::find(cancelled_.begin(), cancelled_.end(), request) != cancelled_.end();
    });
  }
  void wait_until_free() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return bytes_ == 0; });
  }
  [[nodiscard]] std::uint64_t bytes() {
    const std::scoped_lock lock(mutex_);
    return bytes_;
  }
  [[nodiscard]] number submissions() {
    const std::scoped_lock lock(mutex_);
    return numbers_;
  }

  // Set before the server starts.
  std::atomic<bool> is_server_ready = true;  // also later
  bool answers_cancelled = true;
  std::function<void(std::string, load_answer)> on_load = [](const auto&, const auto& done) {
    done(std::nullopt);
  };
  std::function<void(std::string, load_answer)> on_unload = on_load;
  std::uint64_t most_bytes = std::uint64_t{1} << 30;
  std::vector<version_status> others{};
  const std::shared_ptr<model_statistics> statistics = std::make_shared<model_statistics>();

 private:
  class memory final : public input_memory {
   public:
    memory(scripted_backend& backend, std::span<const std::uint64_t> sizes, std::uint64_t bytes)
        : backend_(backend), bytes_(bytes) {
      for (const auto size : sizes) tensors_.emplace_back(size);
    }
    ~memory() override {
      const std::scoped_lock lock(backend_.mutex_);
      backend_.bytes_ -= bytes_;
      backend_.changed_.notify_all();
    }
    [[nodiscard]] std::span<std::byte> tensor(std::size_t index) noexcept override {
      return tensors_[index];
    }

   private:
    scripted_backend& backend_;
    std::uint64_t bytes_;
    std::vector<std::vector<std::byte>> tensors_{};
  };

  script act_;
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::uint64_t bytes_ = 0;
  number numbers_ = 0;
  std::map<number, std::function<void(run_result)>> waiting_{};
  std::vector<number> cancelled_{};
  std::vector<submitted> held_{};
};

/// A result whose outputs are the inputs.
inline run_result echo_of(submitted& request) {
  run_result result{};
  for (std::size_t i = 0; i < request.run.inputs.size(); ++i) {
    const auto& input = request.run.inputs[i];
    result.outputs.push_back({.name = input.name,
                              .type = input.type,
                              .shape = input.shape,
                              .bytes = request.inputs->tensor(i)});
  }
  result.memory = std::shared_ptr<input_memory>(std::move(request.inputs));
  return result;
}

inline void echo(scripted_backend&, submitted request) {
  request.done(echo_of(request));
}

inline void hold(scripted_backend& backend, submitted request) {
  backend.hold(std::move(request));
}

}  // namespace sluice::service::test
