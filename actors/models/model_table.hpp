// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/models/program_cache.hpp"
#include "actors/models/served_model.hpp"

#include <sluice/actors/models.hpp>
#include <sluice/actors/reply.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/planner.hpp>
#include <sluice/envelope/timer.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::detail {

/// The host memory of inputs, in bytes.
[[nodiscard]] inline std::size_t host_bytes_of_inputs(
    const std::vector<run_input>& inputs) noexcept {
  std::size_t sum = 0;
  for (const auto& input : inputs) sum += input.on_host().bytes();
  return sum;
}

/// A request to run a model, which waits for its program. It is answered with `cancelled` if it is
/// destroyed before.
struct model_request {
  explicit model_request(reply_address request_address) : address(std::move(request_address)) {}
  model_request(const model_request&) = delete;
  model_request& operator=(const model_request&) = delete;
  ~model_request() {
    if (answered) return;
    fail(*failure_of([] { throw error(errc::cancelled, "the request was dropped"); }));
  }
  void fail(const error& why) noexcept {
    answered = true;
    inputs.clear();  // the client that gets the error shares its memory with nobody
    key.reset();
    unpadded_key.reset();
    address.send_error(why);
  }

  reply_address address;
  bool answered = false;
  std::shared_ptr<served_model> model{};
  std::optional<program_key> key{};
  std::vector<run_input> inputs{};       // by input of the model
  std::vector<std::uint32_t> outputs{};  // of the model, that are wanted; empty: all
  // If the inputs are padded: the key of the inputs as they are, and their results, by output of
  // the model.
  std::optional<program_key> unpadded_key{};
  std::vector<tensor_spec> unpadded_results{};
  bool to_host = false;
  request_options options{};
  request_sender sender{};
  std::size_t bytes = 0;                            // of its inputs in host memory
  std::shared_ptr<program_cache::entry> awaited{};  // the program that it waits for
  timer::ticket alarm{};                            // of its deadline, while it waits
  timer::time_point wait_start{};
};

/// The models of an actor, and the requests that wait for their programs. One thread calls the
/// functions, except where another is named.
class model_table {
 public:
  /// Has `programs` run the requests. `wake`, which any thread may call, asks the owner to call
  /// `work`.
  model_table(std::shared_ptr<device_service> service, caf::strong_actor_ptr programs,
              std::function<void()> wake);
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
  /// Has the program actor run a model, now or once its program has been made, and answer at
  /// `address`.
  template <class Request>
  void run(Request&& request, const request_options& options, request_sender sender,
           reply_address&& address) noexcept {
    std::unique_ptr<model_request> started;
    auto failure = failure_of([&] { started = std::make_unique<model_request>(address); });
    if (failure) return address.send_error(*failure);
    failure = failure_of([&] {
      require_open();
      started->model = find(request.name);
      started->outputs = started->model->source.number_outputs(request.outputs);
      started->inputs = started->model->source.order_inputs(std::move(request.inputs));
      started->key = started->model->source.key_of(started->inputs, options.bits);
      started->bytes = host_bytes_of_inputs(started->inputs);
      started->to_host = std::is_same_v<std::remove_cvref_t<Request>, run_model_to_host>;
      started->options = options;
      started->sender = sender;
    });
    if (failure) return started->fail(*failure);
    proceed(std::move(started));
  }
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
    error actor_ended{errc::shutting_down, "the model actor has ended"};
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
  void pass_on(model_request& request, const program_outcome& outcome);
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
  const caf::strong_actor_ptr programs_;
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
