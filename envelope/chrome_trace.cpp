// SPDX-License-Identifier: Apache-2.0
#include "envelope/trace_buffer.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/chrome_trace.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using clock = std::chrono::steady_clock;
using detail::traced_launch;
using nlohmann::json;

// The longest time that `json` waits for timestamps.
constexpr auto longest_wait = std::chrono::seconds(1);

}  // namespace

struct chrome_trace::state {
  explicit state(const chrome_trace_options& o)
      : options(o), buffer(o.capacity, o.full == when_full::overwrite_oldest) {}

  const chrome_trace_options options;
  const clock::time_point start = clock::now();
  detail::trace_buffer buffer;
  detail::one_way_signal timed;

  void await_timestamps() {
    const auto target = buffer.untimed();
    const auto limit = clock::now() + longest_wait;
    const auto ready = [&] {
      return buffer.settled() >= target;
    };
    for (auto now = clock::now(); !ready() && now < limit; now = clock::now()) {
      timed.wait_for(limit - now, ready);
    }
  }
};

namespace {

/// Converts launches into the events of the format.
class event_writer {
 public:
  event_writer(clock::time_point start, bool timestamps) : start_(start), timestamps_(timestamps) {}

  json events(std::vector<traced_launch> launches) {
    std::ranges::sort(launches, {}, &traced_launch::enqueue_end);
    set_ends(launches);
    for (const auto& l : launches) add(l);
    return std::move(events_);
  }

 private:
  static constexpr int host_process = 1;

  /// The track of one stream. Its slices do not overlap.
  struct track {
    std::size_t number = 0;
    clock::time_point free{};
  };
  /// The enqueueing call of a launch.
  struct call {
    clock::time_point begin;
    clock::time_point end;
  };
  static std::uint64_t track_key(const traced_launch& l) noexcept {
    return (static_cast<std::uint64_t>(l.info.stream.runtime) << 32U) | l.info.stream.index;
  }
  static int process_of(device_id device) noexcept {
    return 2 + (device.kind == device_kind::cuda ? 0 : 1000) + device.ordinal;
  }

  /// Computes the ends of the slices. A launch without a timestamp at its end ends at its
  /// detection, or at the begin of the next launch on the stream if that is earlier.
  void set_ends(const std::vector<traced_launch>& launches) {
    ends_.resize(launches.size());
    std::map<std::uint64_t, clock::time_point> next_begun;
    for (auto i = launches.size(); i-- > 0;) {
      const auto& l = launches[i];
      const auto next = next_begun.try_emplace(track_key(l), clock::time_point::max()).first;
      ends_[i] = l.ended.value_or(std::min(l.detected, next->second));
      if (l.begun) next->second = *l.begun;
    }
  }

  void add(const traced_launch& l) {
    const auto& launch_track = track_of(l);
    name_thread(l);
    const auto begin = std::max(l.begun.value_or(l.enqueue_end), launch_track.free);
    const auto end = std::max(begin, ends_[added_count_++]);
    tracks_[track_key(l)].free = end;

    const auto& info = l.info;
    const std::string name = info.label.text[0] != '\0' ? info.label.text : info.operation.text;
    json arguments = {{"library", info.library.text},
                      {"operation", info.operation.text},
                      {"type", std::string(to_string(info.type))},
                      {"launch", info.launch_id},
                      {"sizes", info.sizes},
                      {"timestamps", !timestamps_         ? "off"
                                     : l.begun && l.ended ? "device"
                                                          : "missing"}};
    if (info.batch != 1) arguments["batch"] = info.batch;
    if (info.tag.text[0] != '\0') arguments["tag"] = info.tag.text;
    if (info.steps.text[0] != '\0') arguments["steps"] = info.steps.text;
    if (l.failure) arguments["failure"] = std::string(to_string(*l.failure));
    add_slice("launch", name, process_of(info.device), launch_track.number, begin, end,
              std::move(arguments));
    add_steps(l, launch_track.number, begin, end);
    const auto [call_begin, call_end] = call_of(l);
    add_slice("enqueue", "enqueue " + name, host_process, info.thread, call_begin, call_end,
              {{"launch", info.launch_id}});
    if (l.begun) add_asynchronous("queueing", l, info.enqueue_begin, *l.begun);
    if (l.ended) add_asynchronous("detection", l, *l.ended, l.detected);
  }

  /// The slices of the steps of a program, within that of the launch.
  void add_steps(const traced_launch& l, std::uint64_t track_number, clock::time_point begin,
                 clock::time_point end) {
    std::string_view names = l.info.steps.text;
    begin = std::clamp(l.steps_begun, begin, end);
    for (const auto& step_end : l.step_ends) {
      const auto length = std::min(names.find(", "), names.size());
      const auto until = std::clamp(step_end, begin, end);
      add_slice("step", std::string(names.substr(0, length)), process_of(l.info.device),
                track_number, begin, until, {{"launch", l.info.launch_id}});
      begin = until;
      names.remove_prefix(std::min(length + 2, names.size()));
      if (names.empty()) break;  // the names are cut
    }
  }

  /// Slices of one track either nest or follow each other. The calls of a batch overlap, so the
  /// slice of each member begins at the end of that of the previous one.
  call call_of(const traced_launch& l) {
    auto& open_calls = calls_[l.info.thread];
    const auto begin = l.info.enqueue_begin;
    while (!open_calls.empty() && open_calls.back().begin >= begin) open_calls.pop_back();
    const auto free = open_calls.empty() ? begin : std::max(begin, open_calls.back().end);
    open_calls.push_back({begin, l.enqueue_end});
    return {free, l.enqueue_end};
  }

  const track& track_of(const traced_launch& l) {
    auto& launch_track = tracks_[track_key(l)];
    if (launch_track.number == 0) {
      // Numbers of its own, because viewers read a `tid` as 32 bits.
      launch_track.number = tracks_.size();
      name_track(process_of(l.info.device), launch_track.number, to_string(l.info.device),
                 "stream " + std::to_string(l.info.stream.index));
    }
    return launch_track;
  }

  void name_thread(const traced_launch& l) {
    if (std::exchange(thread_named_[l.info.thread], true)) return;
    name_track(host_process, l.info.thread, "enqueueing",
               "thread " + std::to_string(l.info.thread));
  }

  void name_track(int process, std::uint64_t thread, const std::string& process_name,
                  const std::string& thread_name) {
    events_.push_back({{"ph", "M"},
                       {"name", "process_name"},
                       {"pid", process},
                       {"args", {{"name", process_name}}}});
    events_.push_back({{"ph", "M"},
                       {"name", "thread_name"},
                       {"pid", process},
                       {"tid", thread},
                       {"args", {{"name", thread_name}}}});
  }

  void add_slice(const char* category, const std::string& name, int process, std::uint64_t thread,
                 clock::time_point begin, clock::time_point end, json arguments) {
    events_.push_back({{"ph", "X"},
                       {"name", name},
                       {"cat", category},
                       {"pid", process},
                       {"tid", thread},
                       {"ts", microseconds(begin)},
                       {"dur", microseconds(end) - microseconds(begin)},
                       {"args", std::move(arguments)}});
  }

  void add_asynchronous(const char* category, const traced_launch& l, clock::time_point begin,
                        clock::time_point end) {
    for (const auto& [phase, time] : {std::pair{"b", begin}, std::pair{"e", end}}) {
      events_.push_back({{"ph", phase},
                         {"name", category},
                         {"cat", category},
                         {"id", l.info.launch_id},
                         {"pid", process_of(l.info.device)},
                         {"tid", tracks_[track_key(l)].number},
                         {"ts", microseconds(time)}});
    }
  }

  [[nodiscard]] double microseconds(clock::time_point t) const noexcept {
    return std::chrono::duration<double, std::micro>(t - start_).count();
  }

  const clock::time_point start_;
  const bool timestamps_;
  json events_ = json::array();
  std::vector<clock::time_point> ends_;
  std::size_t added_count_ = 0;
  std::map<std::uint64_t, track> tracks_;
  std::map<std::uint64_t, std::vector<call>> calls_;  // of a thread, without those inside others
  std::map<std::uint64_t, bool> thread_named_;
};

}  // namespace

chrome_trace::chrome_trace(const chrome_trace_options& options) {
  if (options.full > when_full::overwrite_oldest) {
    throw error(errc::invalid_argument, "full: is no when_full");
  }
  state_ = std::make_unique<state>(options);
}
chrome_trace::~chrome_trace() = default;

void chrome_trace::before_enqueue(const kernel_info& info) {
  state_->buffer.begin(info);
}

void chrome_trace::after_enqueue(const kernel_info& info, const error*) {
  state_->buffer.enqueued(info.launch_id);
}

void chrome_trace::after_complete(const kernel_info& info, const kernel_outcome& outcome) {
  state_->buffer.completed(info.launch_id, outcome.failure,
                           info.timed && state_->options.timestamps);
}

bool chrome_trace::wants_timestamps() const noexcept {
  return state_->options.timestamps;
}

void chrome_trace::after_timestamps(const kernel_info& info, const kernel_times& times) {
  state_->buffer.timed(info.launch_id, times);
  state_->timed.raise();
}

std::uint64_t chrome_trace::left_out() const noexcept {
  return state_->buffer.left_out();
}

std::string chrome_trace::json() const {
  state_->await_timestamps();
  event_writer writer(state_->start, state_->options.timestamps);
  return nlohmann::json({{"traceEvents", writer.events(state_->buffer.launches())},
                         {"displayTimeUnit", "ms"},
                         {"otherData", {{"left_out", left_out()}}}})
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace sluice
