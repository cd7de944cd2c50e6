#pragma once

#include "actors/lane_queue.hpp"
#include "runtime/staging_pool.hpp"

#include <sluice/actors/device.hpp>
#include <sluice/envelope/kernel_envelope.hpp>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::actors {

/// Moves elements between the process and a device, and within the device, as launches of one lane.
/// On a GPU data goes through pinned staging memory; the host device copies from and to the vectors
/// themselves.
class transfers {
 public:
  /// Takes something, on the completion thread, to drop it later on the owning actor's thread.
  using defer_function = std::function<void(std::shared_ptr<const void>)>;

  transfers(std::shared_ptr<device_service> service, std::shared_ptr<kernel_trace> trace)
      : lane_(std::move(service)),
        staging_(lane_.runtime().device().id().kind == device_kind::cuda
                     ? detail::staging_pool::make(lane_.runtime().shared_device())
                     : nullptr),
        trace_(std::move(trace)) {}

  /// Before the first launch.
  void defer_to(defer_function defer) { defer_ = std::move(defer); }

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
    const void* source = nullptr;
    if (staging_ && bytes != 0) {
      const auto staged = staging_->acquire(bytes);
      std::memcpy(staged.get(), r.values.data(), bytes);
      used.keep(staged);
      source = staged.get();
    } else {
      const auto kept = std::make_shared<std::vector<T>>(std::move(r.values));
      used.keep(kept);
      source = kept->data();
    }
    envelope<T>("upload").run(lane_.lane(), std::move(used), token, target, {r.reply, sizes(count)},
                              [&](const launch_context& context) {
                                device().copy(target.data(), source, bytes,
                                              copy_direction::host_to_device, context.native());
                              });
  }

  template <class T>
  void run(download<T>& r, const reply_token<std::vector<T>>& token) {
    const auto bytes = r.source.bytes();
    auto used = access_all(lane_.runtime(), read(r.source, "source"));
    if (staging_ && bytes != 0) {
      const auto staged = staging_->acquire(bytes);
      used.keep(staged);
      download_staged<T>(r, std::move(used), staged, token);
      return;
    }
    const auto values = std::make_shared<std::vector<T>>(r.source.size());
    used.keep(values);
    const auto arrived = reply_token<std::shared_ptr<std::vector<T>>>::from(
        [token](std::shared_ptr<std::vector<T>> v) { token.succeed(std::move(*v)); },
        [token](const error& why) { token.fail(why); });
    launch_download<T>(r, std::move(used), values, values->data(), arrived);
  }

 private:
  /// Results up to this size are copied by the completion thread itself; a message would cost more.
  static constexpr std::size_t copied_at_once = 64 * 1024;

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
    kernel_envelope made({staging_ ? "CUDA" : "host", operation, element_type_v<T>});
    made.trace(trace_).nvtx_label(operation);
    return made;
  }

  template <class T>
  void download_staged(download<T>& r, operands used, std::shared_ptr<std::byte> staged,
                       const reply_token<std::vector<T>>& token) {
    const auto count = r.source.size();
    const auto unpack = [token, count](const std::byte* from) {
      try {
        std::vector<T> values(count);
        std::memcpy(static_cast<void*>(values.data()), from, count * sizeof(T));
        token.succeed(std::move(values));
      } catch (...) {
        token.fail(current_error());
      }
    };
    const bool at_once = count * sizeof(T) <= copied_at_once;
    const auto arrived = reply_token<std::shared_ptr<std::byte>>::from(
        [token, unpack, at_once, defer = defer_](const std::shared_ptr<std::byte>& from) {
          if (at_once) return unpack(from.get());
          try {
            defer(std::shared_ptr<const void>(
                from.get(), [unpack, from](const std::byte* staging) { unpack(staging); }));
          } catch (...) {
            token.fail(current_error());
          }
        },
        [token](const error& why) { token.fail(why); });
    auto* target = staged.get();
    launch_download<T>(r, std::move(used), std::move(staged), target, arrived);
  }

  template <class T, class Landing>
  void launch_download(download<T>& r, operands used, Landing landing, void* target,
                       const reply_token<Landing>& token) {
    envelope<T>("download")
        .run(lane_.lane(), std::move(used), token, std::move(landing),
             {reply_on::finished, sizes(r.source.size())}, [&](const launch_context& context) {
               device().copy(target, r.source.data(), r.source.bytes(),
                             copy_direction::device_to_host, context.native());
             });
  }

  lane_queue lane_;
  std::shared_ptr<detail::staging_pool> staging_;  // on a GPU
  defer_function defer_;
  std::shared_ptr<kernel_trace> trace_;
};

}  // namespace sluice::actors
