// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/report.hpp>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {

/// Collects the reports of the process during its lifetime. They do not reach standard error. Only
/// one object may exist at a time. Thread-safe.
class collected_reports {
 public:
  struct message {
    std::string text;
    std::uint64_t count;
    std::thread::id thread;
  };

  collected_reports() {
    flush();  // earlier tests may have reported
    set_report_handler([this](const report_message& received) {
      const std::lock_guard lock(mutex_);
      messages_.push_back({std::string(received.text), received.count, std::this_thread::get_id()});
    });
  }
  collected_reports(const collected_reports&) = delete;
  collected_reports& operator=(const collected_reports&) = delete;
  ~collected_reports() {
    flush();
    set_report_handler({});
  }

  /// The messages of everything reported so far.
  [[nodiscard]] std::vector<message> messages() const {
    flush();
    const std::lock_guard lock(mutex_);
    return messages_;
  }
  /// The texts of the messages, one a line.
  [[nodiscard]] std::string text() const {
    std::string lines;
    for (const auto& one : messages()) lines += one.text + '\n';
    return lines;
  }
  /// The number of reports that the messages with this text stand for.
  [[nodiscard]] std::uint64_t count(const std::string& text) const {
    std::uint64_t sum = 0;
    for (const auto& one : messages()) sum += one.text == text ? one.count : 0;
    return sum;
  }

 private:
  static void flush() { (void)flush_reports(std::chrono::nanoseconds::max()); }

  mutable std::mutex mutex_;
  std::vector<message> messages_;
};

}  // namespace sluice::test
