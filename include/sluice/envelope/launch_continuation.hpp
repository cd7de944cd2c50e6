// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/lane.hpp>
#include <sluice/envelope/launch_timing.hpp>
#include <sluice/envelope/operands.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace sluice {

struct launch_context;

namespace detail {

/// A reference to a closure of any type, valid during one call.
class closure_ref {
 public:
  template <class Closure>
  // NOLINTNEXTLINE(google-explicit-constructor): an adaptor for one call.
  closure_ref(Closure& closure)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(closure)))),
        call_([](void* object, const launch_context& context) {
          (*static_cast<Closure*>(object))(context);
        }) {}
  void operator()(const launch_context& context) const { call_(object_, context); }

 private:
  void* object_;
  void (*call_)(void*, const launch_context&);
};

/// The launch of an envelope: its owners, its trace and its reply.
class SLUICE_EXPORT launch_continuation final : public continuation {
 public:
  launch_continuation(operands&& used, std::shared_ptr<kernel_trace> trace, const kernel_info& info,
                      std::shared_ptr<lane_load> load, std::shared_ptr<reply_state>&& reply,
                      std::size_t commands)
      : used_(std::move(used)),
        trace_(std::move(trace)),
        info_(info),
        load_(std::move(load)),
        reply_(std::move(reply)),
        commands_(commands) {}
  ~launch_continuation() override {
    if (reply_) reply_->drop_output();
  }

  /// Attaches timestamps to the launch. `names` keep the strings of its `kernel_info` alive.
  void time(launch_timestamps& by, std::shared_ptr<const void> names) noexcept {
    timing_ = by.prepare(trace_, info_, std::move(names));
  }
  /// Steps 4 to 7 of a launch (docs/concepts/envelope_and_completion.md). Answers on every path.
  static void run(std::unique_ptr<launch_continuation> work, lane& on, reply_on when,
                  const std::string& nvtx_label, closure_ref closure) noexcept;

  std::shared_ptr<launch_reply> complete(const error* failure) noexcept override;

  /// The memory of a continuation belongs to its lane.
  ///@{
  static void* operator new(std::size_t bytes, lane_load& of) { return of.launches.take(bytes); }
  static void operator delete(void* memory, lane_load& of) noexcept {
    of.launches.give_back(memory);
  }
  static void operator delete(launch_continuation* ended, std::destroying_delete_t) noexcept {
    const auto load = std::move(ended->load_);
    ended->~launch_continuation();
    load->launches.give_back(ended);
  }
  ///@}

 private:
  operands used_;
  std::shared_ptr<kernel_trace> trace_;
  kernel_info info_;
  launch_timing timing_;
  std::shared_ptr<lane_load> load_;
  std::shared_ptr<reply_state> reply_;  // holds the output; given away with a successful reply
  std::size_t commands_;
  std::chrono::steady_clock::time_point begun_{};
};

[[nodiscard]] SLUICE_EXPORT std::uint64_t next_launch_id() noexcept;

}  // namespace detail

}  // namespace sluice
