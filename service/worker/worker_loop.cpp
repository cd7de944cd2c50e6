// SPDX-License-Identifier: Apache-2.0
#include "service/worker/worker_loop.hpp"

#include <array>
#include <cerrno>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] model_precision precision_of(const std::string& name) {
  if (name == "original") return model_precision::original;
  if (name == "tf32") return model_precision::tf32;
  if (name == "f16") return model_precision::f16;
  if (name == "bf16") return model_precision::bf16;
  throw std::runtime_error("the front asks for the precision " + name);
}

[[nodiscard]] warm_up_order warm_up_of(const nlohmann::json& message) {
  warm_up_order order{.name = message.at("name").get<std::string>(),
                      .count = message.at("count").get<std::uint64_t>()};
  for (const auto& input : message.at("inputs")) {
    const auto type = datatype_from(input.at("datatype").get<std::string>());
    if (!type) throw std::runtime_error("the front asks for a warm-up with an unknown datatype");
    order.inputs.push_back({.name = input.at("name").get<std::string>(),
                            .type = *type,
                            .shape = input.at("shape").get<std::vector<std::int64_t>>(),
                            .is_random = input.at("random").get<bool>()});
  }
  return order;
}

[[nodiscard]] load_order order_of(const nlohmann::json& message) {
  load_order order{.handle = message.at("load").get<std::uint32_t>(),
                   .name = message.at("name").get<std::string>(),
                   .source = parse_source(message.at("source")),
                   .lanes = message.at("lanes").get<std::size_t>()};
  order.options.precision = precision_of(message.at("precision").get<std::string>());
  for (const auto& each : message.at("warm_ups")) order.warm_ups.push_back(warm_up_of(each));
  return order;
}

}  // namespace

worker_loop::worker_loop(worker_channel& channel, control_socket& control,
                         std::shared_ptr<device_service> service)
    : channel_(channel),
      control_(control),
      replies_(channel),
      service_(std::move(service)),
      lanes_(service_, wake_, [this] { return requests_at_hand_ != 0; }),
      models_(service_, wake_, lanes_, channel, replies_, registry_),
      loader_(wake_) {}

void worker_loop::run() {
  while (!control_.is_closed()) {
    if (work()) continue;
    if (wait_.spin([this] { return channel_.has_messages() || wake_->is_signaled(); })) continue;
    sleep();
    wait_.end_sleep();
  }
}

bool worker_loop::work() {
  if (service_->device().lost()) throw std::runtime_error("the device is lost");
  bool has_worked = take_requests();
  if (wake_->take()) {
    has_worked = true;
    for (auto& loaded : loader_.take()) serve(std::move(loaded));
    models_.work();
    lanes_.work();
    check_.work();
    for (const auto& each : warm_ups_.take()) {
      if (each.problem) {
        models_.remove(each.handle);
        answer(each.handle, {{"refused", each.handle}, {"problem", *each.problem}});
      } else {
        answer(each.handle, each.answer);
      }
    }
    if (const auto number = check_.take()) send({{"checked", *number}});
  }
  if (channel_.take_releases()) replies_.send_waiting();
  // Where there are requests all the time, a system call for each turn would cost as much.
  if (!has_worked || ++turns_without_orders_ == 64) {
    turns_without_orders_ = 0;
    if (take_orders()) has_worked = true;
  }
  return has_worked;
}

bool worker_loop::take_requests() {
  requests_.clear();
  cancellations_.clear();
  if (channel_.receive(requests_, cancellations_) == 0) return false;
  requests_at_hand_ = requests_.size();
  for (const auto& request : requests_) {
    --requests_at_hand_;
    models_.run(request);
  }
  for (const auto request : cancellations_) models_.cancel(request);
  return true;
}

bool worker_loop::take_orders() {
  bool has_worked = false;
  has_unsent_answers_ = !control_.flush();
  while (const auto order = control_.receive()) {
    obey(*order);
    has_worked = true;
  }
  return has_worked;
}

void worker_loop::obey(const nlohmann::json& order) {
  if (order.contains("load")) {
    load_orders_.push_back(order_of(order));
    return load_next();
  }
  if (order.contains("unload")) {
    // The requests that the front has sent before this order.
    while (take_requests()) {
    }
    const auto handle = order.at("unload").get<std::uint32_t>();
    models_.remove(handle);
    warm_ups_.remove(handle);
    std::erase_if(load_orders_, [handle](const auto& each) { return each.handle == handle; });
    if (loading_ == handle) end_load();
    return;
  }
  if (order.contains("check")) return check_.start(order.at("check").get<std::uint64_t>());
  throw std::runtime_error("the front has sent no order: " + order.dump());
}

void worker_loop::load_next() {
  if (loading_ || load_orders_.empty()) return;
  loading_ = load_orders_.front().handle;
  loader_.add(std::move(load_orders_.front()));
  load_orders_.pop_front();
}

void worker_loop::end_load() {
  loading_.reset();
  load_next();
}

void worker_loop::serve(loaded_model&& loaded) {
  const auto handle = loaded.order.handle;
  // The front has unloaded it while it was read.
  if (loading_ != handle) return;
  auto warm_ups = std::move(loaded.warm_ups);
  auto message = models_.add(std::move(loaded));
  if (message.contains("loaded") && !warm_ups.empty()) {
    warm_ups_.add(handle, std::move(message), std::move(warm_ups));
  } else {
    answer(handle, message);
  }
}

void worker_loop::send(const nlohmann::json& message) {
  if (!control_.send(message)) throw std::runtime_error("the front reads no answers");
}

void worker_loop::answer(std::uint32_t handle, const nlohmann::json& message) {
  // Then the problem is not that of the model.
  if (service_->device().lost()) throw std::runtime_error("the device is lost");
  try {
    send(message);
  } catch (const std::length_error&) {
    models_.remove(handle);
    send({{"refused", handle}, {"problem", "its declarations are too long"}});
  }
  end_load();
}

void worker_loop::sleep() {
  if (!channel_.begin_sleep()) return;
  std::array<pollfd, 3> events{{{channel_.wake_descriptor(), POLLIN, 0},
                                {control_.descriptor(), POLLIN, 0},
                                {wake_->descriptor(), POLLIN, 0}}};
  if (has_unsent_answers_) events[1].events |= POLLOUT;
  // Bounded, as the sleep of a completion thread is.
  constexpr int longest_sleep_ms = 500;
  const auto count = ::poll(events.data(), events.size(), longest_sleep_ms);
  const auto code = errno;
  channel_.end_sleep();
  if (count < 0 && code != EINTR) throw std::system_error(code, std::generic_category(), "poll");
  if (count > 0 && (events[2].revents & POLLIN) != 0) wake_->clear();
}

}  // namespace sluice::service
