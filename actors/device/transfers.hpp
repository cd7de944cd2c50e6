// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/lane_queue.hpp"

#include <sluice/actors/device.hpp>
#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/runtime/host_transfer.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::actors {

/// Moves elements between the process and a device, and within the device, as launches of one lane.
class transfers {
 public:
  transfers(std::shared_ptr<device_service> service, std::shared_ptr<kernel_trace> trace)
      : lane_(std::move(service)), trace_(std::move(trace)) {}

  [[nodiscard]] lane_queue& lane() noexcept { return lane_; }

  template <class T>
  void run(allocate<T>& r, const reply_token<gpu_ref<T>>& token) {
    token.succeed(lane_.runtime().template allocate<T>(r.count, stream(), "allocate"));
  }

  template <class T>
  void run(fill<T>& r, const reply_token<gpu_ref<T>>& token) {
    auto used = access_all(lane_.runtime(), write(r.target, "target"));
    envelope<T>("fill").run(lane_.lane(), std::move(used), token, r.target,
                            {r.reply, sizes(r.target.size())}, [&](const launch_context& context) {
                              device().fill(r.target.data(), &r.value, sizeof(T), r.target.size(),
                                            context.native());
                            });
  }

  template <class T>
  void run(copy<T>& r, const reply_token<gpu_ref<T>>& token) {
    if (overlap(r.source, r.target))
      throw error(errc::invalid_argument, "target: shares memory with source");
    const auto& target = r.target = given_or_new(std::move(r.target), r.source.size(), "copy");
    auto used = access_all(lane_.runtime(), read(r.source, "source"),
                           write(target, "target", r.source.size()));
    require_size(target, r.source.size());
    envelope<T>("copy").run(lane_.lane(), std::move(used), token, target,
                            {r.reply, sizes(r.source.size())}, [&](const launch_context& context) {
                              device().copy(target.data(), r.source.data(), r.source.bytes(),
                                            copy_direction::device_to_device, context.native());
                            });
  }

  template <class T>
  void run(upload<T>& r, const reply_token<gpu_ref<T>>& token) {
    const auto count = r.values.size();
    const auto bytes = count * sizeof(T);
    const auto& target = r.target = given_or_new(std::move(r.target), count, "upload");
    auto used = access_all(lane_.runtime(), write(target, "target", count));
    require_size(target, count);
    const auto values = std::make_shared<std::vector<T>>(std::move(r.values));
    const auto moved = host_transfer::upload(stream(), {values, values->data()}, bytes);
    used.keep(moved);
    envelope<T>("upload").run(lane_.lane(), std::move(used), token, target,
                              {r.reply, sizes(count), moved->commands()},
                              [&](const launch_context&) { moved->enqueue(target.data()); });
  }

  template <class T>
  void run(download<T>& r, const reply_token<std::vector<T>>& token) {
    auto used = access_all(lane_.runtime(), read(r.source, "source"));
    const auto count = r.source.size();
    const auto values = std::make_shared<std::vector<T>>(count);
    const auto moved =
        host_transfer::download(stream(), {values, values->data()}, r.source.bytes());
    used.keep(moved);
    using landing = std::shared_ptr<host_transfer>;
    const auto arrived = reply_token<landing>::from(
        [token, values](const landing& m) {
          m->finish();
          token.succeed(std::move(*values));
        },
        [token](const error& why) { token.fail(why); });
    envelope<T>("download")
        .run(lane_.lane(), std::move(used), arrived, moved,
             {reply_on::finished, sizes(count), moved->commands()},
             [&](const launch_context&) { moved->enqueue(r.source.data()); });
  }

 private:
  [[nodiscard]] stream_ref stream() noexcept { return lane_.lane().stream(); }
  [[nodiscard]] sluice::device& device() noexcept { return lane_.runtime().device(); }
  [[nodiscard]] static std::array<std::int64_t, 4> sizes(std::size_t count) {
    return {static_cast<std::int64_t>(count), 0, 0, 0};
  }

  template <class T>
  [[nodiscard]] gpu_ref<T> given_or_new(gpu_ref<T> given, std::size_t count, allocation_tag tag) {
    return given ? std::move(given) : lane_.runtime().template allocate<T>(count, stream(), tag);
  }

  template <class T>
  static void require_size(const gpu_ref<T>& target, std::size_t count) {
    if (target.size() == count) return;
    throw error(errc::invalid_argument, "target: has " + std::to_string(target.size()) +
                                            " elements, and there are " + std::to_string(count) +
                                            " for it");
  }

  template <class T>
  [[nodiscard]] kernel_envelope envelope(const char* operation) {
    const bool host = device().id().kind == device_kind::host;
    kernel_envelope made({host ? "host" : "CUDA", operation, element_type_v<T>});
    made.trace(trace_).nvtx_label(operation);
    return made;
  }

  lane_queue lane_;
  std::shared_ptr<kernel_trace> trace_;
};

}  // namespace sluice::actors
