// SPDX-License-Identifier: Apache-2.0
#include "runtime/reports/report.hpp"

#include "runtime/reports/report_table.hpp"
#include "runtime/sync/one_way_signal.hpp"

#include <sluice/runtime/report.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <new>
#include <optional>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace sluice::detail {
namespace {

using clock = std::chrono::steady_clock;
constexpr auto shortest_interval = std::chrono::seconds(1);
constexpr auto longest_interval = std::chrono::seconds(64);
constexpr auto longest_exit = std::chrono::seconds(1);

// Set on the writer thread: reports made there come from a handler.
thread_local bool is_writer = false;

void write_all(const char* data, std::size_t size) noexcept {
  while (size != 0) {
    const auto count = ::write(STDERR_FILENO, data, size);
    if (count >= 0) {
      data += count;
      size -= static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      pollfd standard_error{STDERR_FILENO, POLLOUT, 0};
      (void)::poll(&standard_error, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

/// Writes the line in one call, so that it does not mix with other output.
void write_line(const report_message& message) noexcept {
  std::array<char, report_table::longest_text + 64> line;
  const auto length = static_cast<int>(message.text.size());
  const int size =
      message.count == 1
          ? std::snprintf(line.data(), line.size(), "sluice: %.*s\n", length, message.text.data())
          : std::snprintf(line.data(), line.size(), "sluice: %.*s (repeated %llu times)\n", length,
                          message.text.data(), static_cast<unsigned long long>(message.count));
  if (size > 0) write_all(line.data(), static_cast<std::size_t>(size));
}

/// Delivers the reports of this process on a thread of its own, which the first report starts.
///
/// It has no destructor, because threads may report until the very end of the process.
class report_writer {
 public:
  void add(std::string_view subject, std::string_view reason) noexcept {
    reported_.fetch_add(1, std::memory_order_relaxed);
    const auto outcome = table_.add(subject, reason);
    // A further repetition changes nothing for the writer.
    if (outcome == report_table::added::dropped) dropped_.fetch_add(1, std::memory_order_relaxed);
    if (outcome == report_table::added::waiting) wake();
    start();
    const auto deadline = exit_deadline_.load(std::memory_order_relaxed);
    if (deadline != not_exiting) (void)flush(clock::time_point(clock::duration(deadline)));
  }

  bool flush(clock::time_point deadline) noexcept {
    if (is_writer) return false;
    if (reported_.load(std::memory_order_relaxed) == 0) return true;
    if (!start()) return false;
    const auto request = flush_requests_.fetch_add(1, std::memory_order_release) + 1;
    wake();
    const auto done = [&] {
      return flushes_done_.load(std::memory_order_acquire) >= request;
    };
    for (auto now = clock::now(); !done() && now < deadline; now = clock::now()) {
      flushed_.wait_for(deadline - now, done);
    }
    return done();
  }

  void set_handler(report_handler* handler) noexcept {
    report_handler* previous = nullptr;
    if (is_writer) {
      previous = handler_.exchange(handler, std::memory_order_acq_rel);
      // The replaced handler is running, so the writer deletes it afterwards.
      if (previous == current_handler_) replaced_handler_ = std::exchange(previous, nullptr);
    } else {
      const std::lock_guard lock(handler_mutex_);
      previous = handler_.exchange(handler, std::memory_order_acq_rel);
    }
    delete previous;
    table_.forget_delivered();
  }

  [[nodiscard]] report_statistics counts() const noexcept {
    return {reported_.load(std::memory_order_relaxed), delivered_.load(std::memory_order_relaxed),
            dropped_.load(std::memory_order_relaxed)};
  }

  void end_process() noexcept {
    const auto deadline = clock::now() + longest_exit;
    exit_deadline_.store(deadline.time_since_epoch().count(), std::memory_order_relaxed);
    (void)flush(deadline);
  }

  /// Resets the writer in a child of `fork`, which has no writer thread. The parent delivers its
  /// own reports.
  void begin_child() noexcept {
    table_.clear();
    for (auto* counter : {&reported_, &delivered_, &dropped_, &flush_requests_, &flushes_done_}) {
      counter->store(0, std::memory_order_relaxed);
    }
    started_.store(false, std::memory_order_relaxed);
    exit_deadline_.store(not_exiting, std::memory_order_relaxed);
    is_writer = false;
    // The parent's writer may have held the lock.
    new (&handler_mutex_) std::mutex;
  }

 private:
  struct delivered_text {
    std::uint64_t sequence = 0;  // of the text delivered last from this slot
    clock::duration interval{};
    clock::time_point due_time{};  // when its repetitions are due
  };

  void wake() noexcept {
    arrivals_.fetch_add(1, std::memory_order_release);
    arrived_.raise();
  }

  /// Starts the writer thread unless it runs. Returns whether it runs. Calls no `operator new`.
  bool start() noexcept {
    if (started_.load(std::memory_order_relaxed)) return true;
    if (started_.exchange(true, std::memory_order_relaxed)) return true;
    sigset_t signals;
    sigset_t previous;
    ::sigfillset(&signals);
    pthread_attr_t attributes;
    bool created = false;
    if (::pthread_attr_init(&attributes) == 0) {
      (void)::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
      (void)::pthread_sigmask(SIG_SETMASK, &signals, &previous);
      pthread_t thread;
      const auto run = [](void* writer_object) -> void* {
        static_cast<report_writer*>(writer_object)->run();
        return nullptr;
      };
      created = ::pthread_create(&thread, &attributes, run, this) == 0;
      (void)::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
      (void)::pthread_attr_destroy(&attributes);
    }
    // The next report tries again.
    if (!created) started_.store(false, std::memory_order_relaxed);
    return created;
  }

  void run() noexcept {
    is_writer = true;
    (void)::pthread_setname_np(::pthread_self(), "sluice-report");
    std::array<delivered_text, report_table::slots> texts;
    drops_ = {};
    for (;;) {
      const auto arrivals = arrivals_.load(std::memory_order_acquire);
      const auto request = flush_requests_.load(std::memory_order_acquire);
      const bool everything = request != flushes_done_.load(std::memory_order_relaxed);
      const auto next = deliver(texts, everything);
      if (everything) {
        flushes_done_.store(request, std::memory_order_release);
        flushed_.raise();
      }
      const auto arrived = [&] {
        return arrivals_.load(std::memory_order_acquire) != arrivals;
      };
      if (next) {
        if (const auto now = clock::now(); *next > now) arrived_.wait_for(*next - now, arrived);
      } else {
        arrived_.wait(arrived);
      }
    }
  }

  /// Delivers the texts that are due, the oldest first. Returns when the next one is due.
  std::optional<clock::time_point> deliver(std::array<delivered_text, report_table::slots>& texts,
                                           bool everything) noexcept {
    struct due_text {
      std::size_t slot;
      std::uint64_t sequence;
    };
    std::array<due_text, report_table::slots> due_texts;
    std::size_t count = 0;
    std::optional<clock::time_point> next;
    const auto wake_at = [&next](clock::time_point time) {
      next = next ? std::min(*next, time) : time;
    };
    const auto now = clock::now();
    // Slots are looked at one by one. A text that arrives meanwhile must not overtake an earlier
    // one, whose slot has been passed already.
    const auto newest = table_.newest();
    for (std::size_t slot = 0; slot < report_table::slots; ++slot) {
      const auto state = table_.look(slot);
      if (state.pending == 0) continue;
      if (state.sequence > newest) {
        wake_at(now);
        continue;
      }
      const auto& text = texts[slot];
      if (everything || state.sequence != text.sequence || now >= text.due_time) {
        due_texts[count++] = {slot, state.sequence};
      } else {
        wake_at(text.due_time);
      }
    }
    std::sort(due_texts.begin(), due_texts.begin() + count,
              [](const due_text& a, const due_text& b) { return a.sequence < b.sequence; });
    for (std::size_t i = 0; i < count; ++i) {
      auto& text = texts[due_texts[i].slot];
      report_table::text_buffer buffer;
      const auto line = table_.read(due_texts[i].slot, buffer);
      if (due_texts[i].sequence != text.sequence) {
        text = {due_texts[i].sequence, shortest_interval, now + shortest_interval};
        table_.take(due_texts[i].slot, 1);
        pass_on({line, 1});
        // Repetitions that arrived meanwhile, unless the slot holds another text by now.
        const auto rest = table_.look(due_texts[i].slot);
        if (rest.pending == 0) continue;
        if (!everything || rest.sequence != due_texts[i].sequence) {
          wake_at(rest.sequence == due_texts[i].sequence ? text.due_time : now);
          continue;
        }
      } else {
        const bool was_quiet = now >= text.due_time + text.interval;
        text.interval = was_quiet ? clock::duration(shortest_interval)
                                  : std::min<clock::duration>(2 * text.interval, longest_interval);
        text.due_time = now + text.interval;
      }
      const auto repetitions = table_.look(due_texts[i].slot).pending;
      table_.take(due_texts[i].slot, repetitions);
      pass_on({line, repetitions});
    }
    say_dropped(now, everything);
    if (drops_.reported != dropped_.load(std::memory_order_relaxed)) wake_at(drops_.due_time);
    return next;
  }

  void pass_on(const report_message& message) noexcept {
    call(message);
    delivered_.fetch_add(message.count, std::memory_order_relaxed);
  }

  void say_dropped(clock::time_point now, bool everything) noexcept {
    const auto dropped = dropped_.load(std::memory_order_relaxed);
    if (dropped == drops_.reported || (!everything && now < drops_.due_time)) return;
    std::array<char, 128> text;
    const int size = std::snprintf(
        text.data(), text.size(),
        "%llu reports were dropped: %zu different texts were already waiting",
        static_cast<unsigned long long>(dropped - drops_.reported), report_table::slots);
    drops_ = {dropped, now + shortest_interval};
    if (size > 0) call({{text.data(), static_cast<std::size_t>(size)}, 1});
  }

  void call(const report_message& message) noexcept {
    {
      const std::lock_guard lock(handler_mutex_);
      current_handler_ = handler_.load(std::memory_order_acquire);
      if (current_handler_ != nullptr) {
        try {
          (*current_handler_)(message);
        } catch (...) {  // an exception has no receiver
        }
        current_handler_ = nullptr;
        delete std::exchange(replaced_handler_, nullptr);
        return;
      }
    }
    // Without the lock: standard error may block, and setting a handler must not.
    write_line(message);
  }

  report_table table_;
  std::atomic<std::uint64_t> reported_{0};
  std::atomic<std::uint64_t> delivered_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<bool> started_{false};
  // Raised by any thread, which acquires nothing.
  std::atomic<std::uint64_t> arrivals_{0};
  one_way_signal arrived_;
  // Only a thread that waits for a flush acquires from the writer.
  std::atomic<std::uint64_t> flush_requests_{0};
  std::atomic<std::uint64_t> flushes_done_{0};
  one_way_signal flushed_;
  // Held while a handler runs. No reporting thread takes it.
  std::mutex handler_mutex_;
  std::atomic<report_handler*> handler_{nullptr};
  report_handler* current_handler_ = nullptr;   // used only by the writer, like all members below
  report_handler* replaced_handler_ = nullptr;  // replaced by its own call
  struct {
    std::uint64_t reported = 0;
    clock::time_point due_time{};
  } drops_;
  static constexpr clock::rep not_exiting = 0;
  std::atomic<clock::rep> exit_deadline_{not_exiting};  // a time of `clock`
};

static_assert(std::is_trivially_destructible_v<report_writer>);
constinit report_writer writer;

/// Constructed when the library is loaded, hence destroyed after the static objects of the program.
struct process_watch {
  process_watch() noexcept {
    (void)::pthread_atfork(nullptr, nullptr, [] { writer.begin_child(); });
  }
  process_watch(const process_watch&) = delete;
  process_watch& operator=(const process_watch&) = delete;
  ~process_watch() { writer.end_process(); }
} const watch;

}  // namespace

void report(std::string_view subject, std::string_view reason) noexcept {
  const int saved_errno = errno;
  writer.add(subject, reason);
  errno = saved_errno;
}

}  // namespace sluice::detail

namespace sluice {

void set_report_handler(report_handler handler) {
  detail::writer.set_handler(handler ? new report_handler(std::move(handler)) : nullptr);
}

report_statistics report_counts() noexcept {
  return detail::writer.counts();
}

bool flush_reports(std::chrono::nanoseconds timeout) noexcept {
  using std::chrono::steady_clock;
  const auto now = steady_clock::now();
  const bool forever = timeout >= steady_clock::time_point::max() - now;
  return detail::writer.flush(forever ? steady_clock::time_point::max() : now + timeout);
}

}  // namespace sluice
