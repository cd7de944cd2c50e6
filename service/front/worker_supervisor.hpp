// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/wake_event.hpp"
#include "service/front/model_catalog.hpp"
#include "service/front/pending_requests.hpp"
#include "service/front/reply_receiver.hpp"
#include "service/front/repository_poller.hpp"
#include "service/front/request_quarantine.hpp"
#include "service/front/worker_backend.hpp"
#include "service/front/worker_link.hpp"

#include <nlohmann/json.hpp>
#include <prometheus/counter.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice::service {

/// Memory for inputs in the arena of a worker.
class arena_inputs final : public input_memory {
 public:
  arena_inputs(std::shared_ptr<worker_link> link, request_region&& memory) noexcept
      : worker(std::move(link)), region(std::move(memory)) {}
  [[nodiscard]] std::span<std::byte> tensor(std::size_t index) noexcept override {
    return region.tensor(index);
  }

  std::shared_ptr<worker_link> worker;
  request_region region;
};

/// The worker processes of a front, and the requests that they have.
///
/// Threads of the front call the public functions. The thread of the supervisor does the rest.
/// `mutex_` covers the catalog and which workers there are. A request is sent under it, so that
/// none is sent to a worker whose requests have been taken back.
class worker_supervisor {
 public:
  using clock = std::chrono::steady_clock;

  explicit worker_supervisor(worker_options&& options);
  worker_supervisor(const worker_supervisor&) = delete;
  worker_supervisor& operator=(const worker_supervisor&) = delete;
  ~worker_supervisor();

  /// As `model_backend` states.
  ///@{
  [[nodiscard]] bool is_ready() const;
  [[nodiscard]] model_metadata describe(std::string_view model, std::string_view version) const;
  [[nodiscard]] model_config configuration(std::string_view model, std::string_view version) const;
  [[nodiscard]] std::vector<repository_entry> index() const;
  void load(std::string&& model, load_answer&& done);
  void unload(std::string&& model, load_answer&& done);
  [[nodiscard]] backend_status status() const;
  [[nodiscard]] state_descriptor state_of(std::string_view model, std::string_view version) const;
  [[nodiscard]] std::unique_ptr<input_memory> allocate(std::span<const std::uint64_t> sizes);
  std::uint64_t submit(run_request&& request, std::unique_ptr<input_memory> inputs,
                       std::function<void(run_result)>&& done);
  void cancel(std::uint64_t number) noexcept;
  ///@}
  /// As the functions of `worker_backend`.
  ///@{
  void drain() noexcept { is_draining_ = true; }
  [[nodiscard]] std::shared_ptr<void> receive_on(std::vector<boost::asio::io_context*> loops);
  ///@}

 private:
  /// A place for a worker, whose processes follow each other.
  struct worker_place {
    worker_program program{};
    std::shared_ptr<worker_link> worker{};  ///< null while it waits for a restart
    clock::time_point restart{};
    clock::duration wait{};  ///< before the next restart
    std::uint64_t starts = 0;
  };
  /// A request without a worker: its worker has died, or takes none now.
  struct orphan {
    std::uint64_t number = 0;
    request_region region{};
    clock::time_point end{};  ///< when it is given up
  };
  /// The retry of a request of a dead worker. Meanwhile its new worker gets no other requests, so
  /// that its death has one cause.
  struct trial {
    orphan request{};
    std::shared_ptr<worker_link> worker{};
    clock::time_point begin{};
    bool is_sent = false;
    bool is_alone = false;  ///< whether the worker had no other request when it was sent
  };
  enum class attempt { waits, sent, answered };
  /// An order to the thread of the supervisor: the loops that receive replies from now on.
  struct loop_order {
    std::vector<boost::asio::io_context*> loops{};
    std::promise<void> done{};
  };
  /// A request to load or to unload a model.
  struct model_request {
    bool is_load = false;
    std::string model{};
    load_answer done{};  ///< null once it has been called
    std::uint64_t number = 0;
    clock::time_point end{};     ///< when a load is answered in any case
    bool has_been_read = false;  ///< whether the repository has been read for it
  };
  /// Of workers, because of one request or one model: then it is given up.
  static constexpr unsigned most_deaths = 2;
  static constexpr std::chrono::seconds longest_wait{30};  ///< of a request for another worker
  static constexpr std::size_t most_held = 1024;

  struct declarations {
    std::vector<tensor_metadata> inputs{};
    std::vector<tensor_metadata> outputs{};
  };

  /// Finds the numbers of a request for a content.
  /// @throws request_error if there is no such input or output
  [[nodiscard]] static worker_run make_run(const run_request& request,
                                           std::shared_ptr<const loaded_version> content);
  [[nodiscard]] static request_error no_worker();
  /// Answers a request that could not be sent.
  void fail(std::uint64_t number, const std::function<void(run_result)>& done,
            const request_error& failure);
  /// The worker for a request: the one that has its inputs, or another one if that does not serve
  /// the content. Under the lock.
  /// @throws request_error if there is none
  [[nodiscard]] std::shared_ptr<worker_link> worker_for(
      std::uint32_t handle, const std::shared_ptr<worker_link>& worker) const;
  /// Gives a request to a worker. `worker` has the inputs at first, and the same one as `target`
  /// afterwards. `note` is called before the request is sent. Under the lock.
  /// @throws request_error if it cannot take the request
  void send(std::uint64_t number, run_message message, std::shared_ptr<worker_link>& worker,
            request_region& region, const std::shared_ptr<worker_link>& target,
            const std::function<void()>& note);
  /// The worker with the fewest requests among those that serve a content, or any; one that does
  /// not compute, or tries another request, only if there is no other. Null if there is none. Under
  /// the lock.
  [[nodiscard]] std::shared_ptr<worker_link> choose(std::uint32_t handle) const;

  // The thread of the supervisor.
  void run() noexcept;
  [[nodiscard]] bool work();
  void start(worker_place& place);
  void order(std::vector<boost::asio::io_context*> loops);
  void obey(loop_order&& order);
  /// Has a loop receive the replies of a worker, if there are loops.
  void watch_replies(worker_place& place);
  [[nodiscard]] bool take_messages(const std::shared_ptr<worker_link>& worker);
  void obey(worker_link& worker, const nlohmann::json& message);
  void end(worker_place& place);
  void kill(worker_link& worker, const char* reason) noexcept;
  /// A worker that has closed its control socket is about to end, and is killed if it does not.
  void end_closed(worker_link& worker) noexcept;
  void apply(const repository_news& news);
  void load(worker_link& worker, const loaded_version& content) noexcept;
  /// Asks an open worker to compute, from time to time.
  /// @throws std::runtime_error if it has not answered for `worker_options::hang_timeout`
  void check(worker_link& worker);
  void note_check(worker_link& worker, std::uint64_t number);
  /// Serves the contents that all open workers have loaded.
  void serve_loaded();
  /// States that a content cannot be loaded.
  void refuse(std::uint32_t handle, std::string problem);
  void unload(const std::vector<std::uint32_t>& handles);
  void retry_orphans();
  void begin_trial();
  [[nodiscard]] bool has_ended(trial& isolation);
  void end_trial();
  /// Notes that the worker of the trial has died, with these requests.
  /// @param has_failed  whether it died of itself
  void end_trial_by_death(const std::vector<pending_request>& requests, bool has_failed);
  /// Refuses requests like this one for a time.
  void quarantine(const worker_run& run) noexcept;
  /// Sends a request to `target`, or to any worker that takes it.
  [[nodiscard]] attempt try_again(orphan& each, const std::shared_ptr<worker_link>& target);
  void send_held();
  [[nodiscard]] bool has_held() const;
  void answer(std::uint64_t number, const request_error& failure);
  /// Answers the requests of a worker that has been killed and still exists, as a driver can have
  /// it. Their memory stays with it.
  void give_up_on(worker_link& worker);
  /// Why a request without a worker can get none.
  [[nodiscard]] std::optional<request_error> refusal_of(const orphan& each,
                                                        const worker_run& run) const;
  void answer_expired();

  // model_requests.cpp: requests to load and unload models, on the same thread.
  void add(model_request request);
  void take_model_requests();
  void begin_load(model_request request);
  void end_model(model_request request);
  /// Returns the models that are to be loaded now, for loads that wait for this news.
  [[nodiscard]] std::vector<std::string> take_looks(const repository_news& news);
  void answer_loads();
  void fail_loads();

  void sleep();
  void fail_all();

  const worker_options options_;
  wake_event wake_;
  mutable std::mutex mutex_;
  model_catalog catalog_;
  std::vector<worker_place> places_;
  std::uint64_t next_number_ = 1;
  // Refused requests.
  prometheus::Counter without_worker_;
  prometheus::Counter above_memory_;
  prometheus::Counter above_in_flight_;
  prometheus::Counter above_size_;
  prometheus::Counter quarantined_;
  pending_requests pending_;
  reply_receiver receiver_{pending_};
  std::vector<loop_order> loop_orders_;  // under the lock
  std::vector<boost::asio::io_context*> loops_;
  std::deque<orphan> orphans_;  // of dead workers, the oldest first
  std::optional<trial> trial_;
  clock::time_point next_trial_{};
  std::optional<clock::time_point> trials_end_;  // of these orphans
  std::vector<orphan> held_;                     // during a trial; under the lock
  request_quarantine quarantine_;                // under the lock
  std::vector<model_request> model_requests_;    // under the lock
  std::vector<model_request> loads_;             // that have begun
  std::uint64_t next_load_ = 1;
  std::map<std::uint32_t, declarations> declared_;  // of contents that are not served yet
  std::map<std::uint32_t, unsigned> deaths_;        // of workers, by the content that they loaded
  std::atomic<bool> is_closing_{false};
  std::atomic<bool> is_draining_{false};
  std::atomic<clock::rep> wake_up_{0};  // when the supervisor looks at deadlines again
  clock::time_point next_look_{};       // at processes and control sockets
  repository_poller repository_;
  std::thread thread_;
};

}  // namespace sluice::service
