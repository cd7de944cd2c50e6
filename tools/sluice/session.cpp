// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/session.hpp"

#include "tools/io/output_file.hpp"
#include "tools/sluice/exit_code.hpp"
#include "tools/sluice/trace_picture.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

/// Stores the launch that completed last.
class launch_watch final : public kernel_trace {
 public:
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override {
    launch_summary summary{std::string(info.library), std::string(info.operation), outcome.latency};
    const std::lock_guard lock(mutex_);
    last_ = std::move(summary);
  }
  [[nodiscard]] launch_summary last() const {
    const std::lock_guard lock(mutex_);
    return last_;
  }

 private:
  mutable std::mutex mutex_;
  launch_summary last_;
};

/// Stores the times of runs of programs until they are taken.
class run_clock final : public kernel_trace {
 public:
  [[nodiscard]] bool wants_timestamps() const noexcept override { return true; }
  void after_timestamps(const kernel_info& info, const kernel_times& times) override {
    if (info.operation != "program") return;
    const std::lock_guard lock(mutex_);
    times_.push_back(times.execution());
    changed_.notify_one();
  }
  [[nodiscard]] std::optional<std::chrono::nanoseconds> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !times_.empty(); });
    const auto first = times_.front();
    times_.pop_front();
    return first;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::optional<std::chrono::nanoseconds>> times_;
};

/// The configuration of an actor system that can print sluice's errors. It reads no file and no
/// arguments.
struct configuration : caf::actor_system_config {
  configuration() { configure(*this); }
};

error about_device(const common_options& options, const error& e) {
  return {e.code(), "--device " + options.device + ": " + e.what(), e.status(), e.where()};
}

}  // namespace

// In the order of construction: the device is destroyed before the actor system.
struct session::parts {
  std::string device_name;
  std::optional<std::filesystem::path> trace_path;
  std::shared_ptr<chrome_trace> chrome;
  std::shared_ptr<launch_watch> watch;
  std::shared_ptr<run_clock> clock;
  std::shared_ptr<kernel_trace> trace;
  configuration config;
  caf::actor_system system{config};
  std::optional<scoped_device> device;
};

device_service_options session::without_limits() {
  return {.limits = {.max_work = std::numeric_limits<double>::infinity(),
                     .max_planning_work = std::numeric_limits<double>::infinity(),
                     .max_host_bytes_of_plan = std::numeric_limits<std::size_t>::max()}};
}

session::session(const common_options& options, watch watched, device_service_options service)
    : parts_(std::make_unique<parts>()) {
  parts& p = *parts_;
  p.device_name = options.device;
  p.trace_path = options.trace;
  std::vector<std::shared_ptr<kernel_trace>> traces;
  if (options.trace) traces.push_back(p.chrome = std::make_shared<chrome_trace>());
  if (watched == watch::launches) traces.push_back(p.watch = std::make_shared<launch_watch>());
  if (watched == watch::run_times) traces.push_back(p.clock = std::make_shared<run_clock>());
  if (traces.size() == 1) p.trace = traces.front();
  if (traces.size() > 1) p.trace = std::make_shared<fan_out_trace>(std::move(traces));
  try {
    p.device.emplace(p.system, options.device, p.trace, std::move(service));
  } catch (const error& e) {
    throw about_device(options, e);
  }
}

session::~session() = default;

caf::actor_system& session::system() noexcept {
  return parts_->system;
}

scoped_device& session::device() noexcept {
  return *parts_->device;
}

device_info session::info() const {
  return parts_->device->service().device().info();
}

void session::reopen_device(device_service_options service) {
  parts& p = *parts_;
  p.device.reset();
  p.device.emplace(p.system, p.device_name, p.trace, std::move(service));
}

std::string session::device_name() const {
  return to_string(parts_->device->service().device().id());
}

std::shared_ptr<kernel_trace> session::trace() const noexcept {
  return parts_->chrome;
}

launch_summary session::last_launch() const {
  return parts_->watch ? parts_->watch->last() : launch_summary{};
}

std::chrono::nanoseconds session::take_run_time() {
  const auto time = parts_->clock->take();
  if (!time) throw error(errc::library_failure, "the device has no timestamps of a run");
  return *time;
}

void session::finish() {
  const parts& p = *parts_;
  if (!p.chrome) return;
  write_trace(*p.trace_path, *p.chrome);
  if (const auto missing = p.chrome->left_out(); missing != 0) {
    const auto line = error_line(
        "", fmt::format("--trace: {} launches are not in the file, which has the first {}", missing,
                        chrome_trace_options().capacity));
    std::fwrite(line.data(), 1, line.size(), stderr);
  }
}

void write_trace(const std::filesystem::path& path, const chrome_trace& trace) {
  if (path.extension() == ".png") {
    io::draw_timeline(trace_part(trace.json())).save(path);
    return;
  }
  const std::string json = trace.json() + '\n';
  io::output_file file(path);
  file.write(std::as_bytes(std::span(json)));
  file.commit();
}

}  // namespace sluice::cli
