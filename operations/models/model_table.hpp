// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/models/model_request.hpp"
#include "operations/models/program_cache.hpp"
#include "operations/models/served_model.hpp"

#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/planner.hpp>
#include <sluice/envelope/timer.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/models.hpp>
#include <sluice/operations/request_options.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace sluice::detail {

/// Models by name, and the requests that wait for their programs. One thread calls the
/// functions, except where another is named.
class SLUICE_EXPORT model_table {
 public:
  /// `wake`, which any thread may call, asks the owner to call `work`.
  model_table(std::shared_ptr<device_service> service, std::function<void()> wake);
  model_table(const model_table&) = delete;
  model_table& operator=(const model_table&) = delete;
  /// Answers the requests that wait with `shutting_down`, and then waits for the programs that are
  /// being made.
  ~model_table();

  /// @throws error as the requests of these names state
  ///@{
  [[nodiscard]] model_description load(const load_model& request);
  [[nodiscard]] model_list unload(const unload_model& request);
  [[nodiscard]] model_list list() const;
  [[nodiscard]] model_description describe(const describe_model& request) const;
  ///@}
  /// The requests that wait for programs.
  [[nodiscard]] queue_status status() const noexcept;
  /// Runs a model for `request`, now or once its program has been made.
  void run(std::unique_ptr<model_request> request, run_model&& model) noexcept;
  /// Answers those requests of `sender` with the id `id` that wait for a program with `cancelled`.
  void cancel(request_sender sender, std::uint64_t id) noexcept;
  /// Drops those with `request_options::while_alive`, because their sender has ended.
  void sender_ended(request_sender sender) noexcept;
  /// Goes on with the requests whose programs have been made, and answers those whose deadline has
  /// passed. Called by the owner after each wake.
  void work() noexcept;
  /// Answers the requests that wait, and from now on all others, with `shutting_down`. Does not
  /// wait for the programs that are being made.
  void close() noexcept;
  /// Whether a program is being made. `wake` tells of each that ends.
  [[nodiscard]] bool is_making() const noexcept { return attempts_ != 0; }
  /// @throws error `shutting_down` if the table is closed
  void require_open() const;

 private:
  /// Why requests end while they wait. These are made in advance: there may be no memory when they
  /// are needed.
  struct wait_failures {
    error closed{errc::shutting_down, "the models are not served any more"};
    error sender_ended{errc::cancelled, "the sender has ended"};
    error cancelled{errc::cancelled, "the request was cancelled"};
    error expired{errc::deadline_exceeded,
                  "the deadline passed before the program of the model had been made"};
  };
  /// An attempt to make a program.
  struct attempt {
    std::shared_ptr<served_model> model{};
    std::shared_ptr<program_cache::entry> entry{};
    program_outcome outcome{};
    planner::job_length length{};
    std::shared_ptr<attempt> next{};  // of those that have ended
  };
  /// The attempts that have ended. Thread-safe.
  class ended_attempts {
   public:
    void add(std::shared_ptr<attempt> ended) noexcept;
    /// States that no further programs are wanted.
    void close() noexcept { is_closed_ = true; }
    [[nodiscard]] bool is_closed() const noexcept { return is_closed_; }
    /// Takes all, in the order of their ends.
    [[nodiscard]] std::shared_ptr<attempt> take() noexcept;

   private:
    std::mutex mutex_;
    std::shared_ptr<attempt> last_;
    std::atomic<bool> is_closed_{false};
  };

  [[nodiscard]] const std::shared_ptr<served_model>& find(const std::string& name) const;
  /// The count of the requests that wait for models of a name. A model that replaces another one
  /// takes over its count.
  [[nodiscard]] std::shared_ptr<waiting_count> waiting_count_of(const std::string& name) const;
  /// Passes a request on, or lets it wait.
  void proceed(std::unique_ptr<model_request> request) noexcept;
  /// Passes a request on if there is a program, or answers it if there cannot be one. Returns
  /// whether it has got the key of another program that it needs.
  [[nodiscard]] bool apply(model_request& request, const program_outcome& outcome);
  void wait(std::unique_ptr<model_request>& request,
            const std::shared_ptr<program_cache::entry>& entry);
  /// Takes a request that waits.
  [[nodiscard]] std::unique_ptr<model_request> take(std::uint64_t number) noexcept;
  void fail_expired() noexcept;
  template <class Predicate>
  void fail_waiting(const error& why, const Predicate& predicate) noexcept;
  /// Begins with the next program of a model, unless one is being made.
  void make_next(const std::shared_ptr<served_model>& model) noexcept;
  void post(const std::shared_ptr<served_model>& model,
            const std::shared_ptr<program_cache::entry>& entry);
  /// Goes on with what has waited for a program.
  void finish(const std::shared_ptr<served_model>& model,
              const std::shared_ptr<program_cache::entry>& entry,
              program_outcome&& outcome) noexcept;

  const std::shared_ptr<device_service> service_;
  const std::function<void()> wake_;
  const wait_failures failures_;
  std::map<std::string, std::shared_ptr<served_model>> models_;
  std::map<std::uint64_t, std::unique_ptr<model_request>> waiting_;
  std::uint64_t next_number_ = 0;
  std::size_t attempts_ = 0;  // that have been posted, and have not been seen to end
  std::shared_ptr<ended_attempts> ended_ = std::make_shared<ended_attempts>();
  sluice::planner planner_;
  planner::client makers_{planner_};
};

}  // namespace sluice::detail
