// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/front/worker_process.hpp"
#include "service/repository/model_repository.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace sluice::service {

/// Options of a `worker_backend`.
struct worker_options {
  model_sources models{};
  /// One worker process for each: the program and its arguments.
  std::vector<worker_program> workers{};
  std::uint64_t request_bytes = std::uint64_t{512} << 20U;  ///< for inputs, of each worker
  std::uint64_t reply_bytes = std::uint64_t{512} << 20U;    ///< for outputs, of each worker
  std::chrono::milliseconds poll_interval{1'000};           ///< how often the repository is read
  std::chrono::milliseconds load_timeout{300'000};          ///< of a request to load a model
  std::chrono::milliseconds hang_timeout{
      60'000};                                   ///< a worker that computes nothing is killed then
  std::chrono::milliseconds first_restart{100};  ///< before a worker that has died is replaced
  std::chrono::milliseconds last_restart{30'000};  ///< the wait doubles up to this
};

class worker_supervisor;

/// Serves the models of a repository by worker processes.
///
/// A thread of its own, the supervisor, starts the processes and replaces those that die. The
/// requests that a dead worker had are run once more, by another worker or by the new one. They are
/// answered with `unavailable` if that one dies, too.
class worker_backend final : public model_backend {
 public:
  /// Reads the repository and starts the workers.
  /// @throws repository_error if the repository cannot be read
  /// @throws std::system_error if the kernel refuses memory, a thread or a descriptor
  explicit worker_backend(worker_options options);
  worker_backend(const worker_backend&) = delete;
  worker_backend& operator=(const worker_backend&) = delete;
  /// Answers all requests with `unavailable` and kills the workers.
  ~worker_backend() override;

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
  /// States from now on that the service is not ready, so that no balancer sends new clients.
  void drain() noexcept;
  /// Has the replies of each worker received by one of these loops, so that a worker wakes the
  /// thread that answers the client. Otherwise the supervisor receives them. This lasts until the
  /// returned object is destroyed, before which no loop may end.
  [[nodiscard]] std::shared_ptr<void> receive_on(std::vector<boost::asio::io_context*> loops);

 private:
  const std::unique_ptr<worker_supervisor> supervisor_;
};

}  // namespace sluice::service
