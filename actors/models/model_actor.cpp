// SPDX-License-Identifier: Apache-2.0
#include "actors/lanes/inbox_actor.hpp"
#include "actors/lanes/lane_inbox.hpp"
#include "actors/lanes/operation_handlers.hpp"
#include "actors/models/model_run.hpp"
#include "operations/seam.hpp"

#include <sluice/actors/models.hpp>
#include <sluice/actors/reply.hpp>
#include <sluice/envelope/wait_policy.hpp>

#include <memory>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using namespace detail;

struct model_state {
  model_state() = default;
  model_state(const model_state&) = delete;
  model_state& operator=(const model_state&) = delete;
  ~model_state() {
    // The mailbox answers what it still gets, or has got and not handled.
    if (inbox) inbox->close();
  }

  std::shared_ptr<lane_inbox> inbox;
  std::shared_ptr<device_service> service;
  caf::strong_actor_ptr programs;
  std::unique_ptr<model_table> table;
  std::set<caf::actor_id> watched;  // senders whose end drops requests
  // While the actor ends: why, and a handle, because its last one may be dropped meanwhile.
  caf::error end_reason;
  caf::strong_actor_ptr ending;
  const char* name = "sluice.models";
};
using model_self = caf::stateful_actor<model_state>*;

/// Ends the handler of a message, whatever is thrown.
class handled_message_of_client {
 public:
  explicit handled_message_of_client(model_self self) noexcept
      : self_(self), sender_(sender_of(self->current_sender())) {}
  handled_message_of_client(const handled_message_of_client&) = delete;
  handled_message_of_client& operator=(const handled_message_of_client&) = delete;
  ~handled_message_of_client() {
    auto& state = state_of(self_);
    state.inbox->note_handled(sender_);
    (void)spinners::of_process().spin(state.service->waiting(),
                                      [this] { return has_message(self_); });
  }
  [[nodiscard]] request_sender sender() const noexcept { return sender_; }

 private:
  const model_self self_;
  const request_sender sender_;
};

/// The handler of a request that is answered at once, with `work(table, request)`. It takes the
/// request unchanged: CAF would copy one that other messages share where no failure is caught.
template <class Request, class Work>
auto direct_handler(model_self self, Work work) {
  using reply = std::invoke_result_t<Work&, model_table&, const Request&>;
  return [self, work](const Request& request) {
    const handled_message_of_client handled(self);
    auto promise = take_promise<reply>(self);
    answer_failures(promise.token, [&] {
      auto& table = *state_of(self).table;
      table.require_open();
      promise.token.succeed(work(table, request));
    });
    return promise.delegated;
  };
}

/// A request of a client, which the program actor answers once there is a program.
class client_request final : public model_request {
 public:
  client_request(reply_address&& address, const request_options& options, request_sender sender,
                 bool wants_host_memory, const caf::strong_actor_ptr& programs)
      : model_request(options, sender, wants_host_memory),
        programs_(programs),
        address_(std::move(address)) {}
  client_request(const client_request&) = delete;
  client_request& operator=(const client_request&) = delete;
  ~client_request() override { drop(); }

 private:
  void pass_on(model_run&& run) override {
    auto message = to_host ? caf::make_message(model_run_to_host{std::move(run)}, options)
                           : caf::make_message(std::move(run), options);
    address_.pass_on(programs_, std::move(message));
  }
  void send_error(const error& why) noexcept override { address_.send_error(why); }

  const caf::strong_actor_ptr programs_;
  reply_address address_;
};

/// Takes a message if it is a `Request`, alone or followed by options. Returns whether it is.
template <class Request>
[[nodiscard]] bool take_run(model_self self, message_content& content, request_sender sender) {
  const bool has_options = content.match_elements<Request, request_options>();
  if (!has_options && !content.match_elements<Request>()) return false;
  const request_options defaults;
  const auto& options = has_options ? content.get_as<request_options>(1) : defaults;
  auto address = take_address(self);
  const auto failure = failure_of([&] {
    watch_sender(self, self->current_sender(), options);
    use_unshared(content, [&](message_content& message) {
      auto& state = state_of(self);
      auto request = std::make_unique<client_request>(reply_address(address), options, sender,
                                                      std::is_same_v<Request, run_model_to_host>,
                                                      state.programs);
      auto& model = message.get_mutable_as<Request>(0);
      state.table->run(std::move(request), {.name = std::move(model.name),
                                            .inputs = std::move(model.inputs),
                                            .outputs = std::move(model.outputs)});
    });
  });
  if (failure) address.send_error(*failure);
  return true;
}

/// Answers a message of a type that the actor does not take. CAF would make the answer where no
/// failure is caught.
void refuse_other(model_self self) noexcept {
  auto& message = *self->current_mailbox_element();
  const auto failure = failure_of([&] {
    if (!message.mid.is_request() || !message.sender) return;
    sluice::detail::enqueue(message.sender, nullptr, message.mid.response_id(),
                            caf::make_error(caf::sec::unexpected_message));
    message.mid.mark_as_answered();
  });
  if (failure) take_address(self).send_error(*failure);
}

/// What a request to run a model takes while it waits in front of the actor.
template <class Request>
[[nodiscard]] message_size size_of_run(const message_content& content) noexcept {
  const auto& request = content.template get_as<Request>(0);
  constexpr std::size_t links = 4 * sizeof(void*);  // of a node of a map
  message_size size{.bytes = sizeof(Request) + request.name.capacity()};
  for (const auto& [name, input] : request.inputs) {
    size.bytes += sizeof(name) + name.capacity() + sizeof(input) + links + input.on_host().bytes();
  }
  for (const auto& name : request.outputs) size.bytes += sizeof(name) + name.capacity();
  return size;
}

/// The messages of clients. The actor has handlers for all but the runs, which it takes as other
/// messages.
[[nodiscard]] std::shared_ptr<const request_table> messages() {
  const std::vector<request_type> runs{
      {id_of_element_type<run_model>(), &size_of_run<run_model>, nullptr},
      {id_of_element_type<run_model_to_host>(), &size_of_run<run_model_to_host>, nullptr}};
  const auto others = {id_of_element_type<load_model>(), id_of_element_type<unload_model>(),
                       id_of_element_type<list_models>(), id_of_element_type<describe_model>()};
  return std::make_shared<const request_table>(runs, others);
}

class serving_actor final : public inbox_actor<model_state> {
 public:
  serving_actor(caf::actor_config& config, std::shared_ptr<device_service> service,
                const program_actor& programs)
      : inbox_actor(config, messages()), service_(std::move(service)), programs_(programs) {}

 protected:
  caf::behavior make_behavior() override {
    auto& own = state_of(self());
    own.inbox = inbox();
    own.service = std::move(service_);
    own.programs = caf::actor_cast<caf::strong_actor_ptr>(programs_);
    sluice::monitor(self(), std::exchange(programs_, program_actor()));
    if constexpr (detached_actors_have_own_threads) own.service->device().prepare_own_thread();
    own.table = std::make_unique<model_table>(own.service,
                                              [owner = self()->address()] { post_wake(owner); });
    sluice::on_down(self(), [this](const caf::down_msg& down) { sender_ended(down); });
    sluice::on_exit(self(), [this](caf::exit_msg& exit) {
      if (exit.reason) end(exit.reason);
    });
    on_other_message(self(), [this](message_content& content) {
      const handled_message_of_client handled(self());
      if (!take_run<run_model>(self(), content, handled.sender()) &&
          !take_run<run_model_to_host>(self(), content, handled.sender())) {
        refuse_other(self());  // a bulk, which has a place in the inbox of any actor
      }
      return true;
    });
    return handlers();
  }

 private:
  [[nodiscard]] caf::behavior handlers() {
    return {[this](wake) {
              state_of(self()).table->work();
              quit_if_ended();
            },
            direct_handler<load_model>(
                self(),
                [](model_table& table, const load_model& request) { return table.load(request); }),
            direct_handler<unload_model>(self(),
                                         [](model_table& table, const unload_model& request) {
                                           return table.unload(request);
                                         }),
            direct_handler<list_models>(
                self(), [](model_table& table, const list_models&) { return table.list(); }),
            direct_handler<describe_model>(self(),
                                           [](model_table& table, const describe_model& request) {
                                             return table.describe(request);
                                           }),
            direct_handler<get_queue_status>(
                self(), [](model_table& table, const get_queue_status&) { return table.status(); }),
            [this](const cancel_request& request) {
              cancel(request);
            }};
  }
  void cancel(const cancel_request& request) {
    const handled_message_of_client handled(self());
    auto& own = state_of(self());
    own.table->cancel(handled.sender(), request.id);
    // Others of its requests are with the program actor. Without memory these are not cancelled.
    (void)failure_of([&] {
      sluice::detail::enqueue(own.programs, self()->current_sender(), caf::make_message_id(),
                              request);
    });
  }
  void sender_ended(const caf::down_msg& down) {
    auto& own = state_of(self());
    if (down.source == own.programs->address()) return end(down.reason);
    if (own.watched.erase(down.source.id()) != 0) own.table->sender_ended({down.source.id()});
  }
  void end(caf::error reason) {
    auto& own = state_of(self());
    if (own.ending) return;
    own.ending = caf::actor_cast<caf::strong_actor_ptr>(this);
    own.end_reason = std::move(reason);
    own.table->close();
    quit_if_ended();
  }
  /// Quits once no program is being made. Until then the handlers answer with `shutting_down`: a
  /// source may ask this actor while it makes a program.
  void quit_if_ended() {
    auto& own = state_of(self());
    if (!own.ending || own.table->is_making()) return;
    // CAF 1.x tells of the end of an actor before it destroys the own.
    own.table.reset();
    quit(std::move(own.end_reason));
    own.ending = nullptr;
  }

  // Until the actor runs.
  std::shared_ptr<device_service> service_;
  program_actor programs_;
};

}  // namespace

model_actor spawn_models(caf::actor_system& system, std::shared_ptr<device_service> service,
                         const program_actor& programs) {
  return caf::actor_cast<model_actor>(
      system.spawn<serving_actor, library_actor_options>(std::move(service), programs));
}

}  // namespace sluice
