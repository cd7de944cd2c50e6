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
    const auto written = ::write(STDERR_FILENO, data, size);
    if (written >= 0) {
      data += written;
      size -= static_cast<std::size_t>(written);
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
  void add(std::string_view what, std::string_view why) noexcept {
    reported_.fetch_add(1, std::memory_order_relaxed);
    const auto added = table_.add(what, why);
    // A further repetition changes nothing for the writer.
    if (added == report_table::added::dropped) dropped_.fetch_add(1, std::memory_order_relaxed);
    if (added == report_table::added::waiting) wake();
    start();
    const auto exit_by = exit_by_.load(std::memory_order_relaxed);
    if (exit_by != not_exiting) (void)flush(clock::time_point(clock::duration(exit_by)));
  }

  bool flush(clock::time_point deadline) noexcept {
    if (is_writer) return false;
    if (reported_.load(std::memory_order_relaxed) == 0) return true;
    if (!start()) return false;
    const auto mine = flush_asked_.fetch_add(1, std::memory_order_release) + 1;
    wake();
    const auto done = [&] {
      return flush_done_.load(std::memory_order_acquire) >= mine;
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
      if (previous == running_) to_delete_ = std::exchange(previous, nullptr);
    } else {
      const std::lock_guard lock(calling_);
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
    exit_by_.store(deadline.time_since_epoch().count(), std::memory_order_relaxed);
    (void)flush(deadline);
  }

  /// Resets the writer in a child of `fork`, which has no writer thread. The parent delivers its
  /// own reports.
  void begin_child() noexcept {
    table_.clear();
    for (auto* counter : {&reported_, &delivered_, &dropped_, &flush_asked_, &flush_done_}) {
      counter->store(0, std::memory_order_relaxed);
    }
    started_.store(false, std::memory_order_relaxed);
    exit_by_.store(not_exiting, std::memory_order_relaxed);
    is_writer = false;
    // The parent's writer may have held the lock.
    new (&calling_) std::mutex;
  }

 private:
  struct delivered_text {
    std::uint64_t sequence = 0;  // of the text delivered last from this slot
    clock::duration interval{};
    clock::time_point due{};  // when its repetitions are due
  };

  void wake() noexcept {
    arrivals_.fetch_add(1, std::memory_order_release);
    arrived_.raise();
  }

  /// Starts the writer thread unless it runs. Returns whether it runs. Calls no `operator new`.
  bool start() noexcept {
    if (started_.load(std::memory_order_relaxed)) return true;
    if (started_.exchange(true, std::memory_order_relaxed)) return true;
    sigset_t all;
    sigset_t previous;
    ::sigfillset(&all);
    pthread_attr_t attributes;
    bool made = false;
    if (::pthread_attr_init(&attributes) == 0) {
      (void)::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
      (void)::pthread_sigmask(SIG_SETMASK, &all, &previous);
      pthread_t thread;
      const auto run = [](void* self) -> void* {
        static_cast<report_writer*>(self)->run();
        return nullptr;
      };
      made = ::pthread_create(&thread, &attributes, run, this) == 0;
      (void)::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
      (void)::pthread_attr_destroy(&attributes);
    }
    // The next report tries again.
    if (!made) started_.store(false, std::memory_order_relaxed);
    return made;
  }

  void run() noexcept {
    is_writer = true;
    (void)::pthread_setname_np(::pthread_self(), "sluice-report");
    std::array<delivered_text, report_table::slots> texts;
    drops_ = {};
    for (;;) {
      const auto seen = arrivals_.load(std::memory_order_acquire);
      const auto asked = flush_asked_.load(std::memory_order_acquire);
      const bool everything = asked != flush_done_.load(std::memory_order_relaxed);
      const auto next = deliver(texts, everything);
      if (everything) {
        flush_done_.store(asked, std::memory_order_release);
        flushed_.raise();
      }
      const auto arrived = [&] {
        return arrivals_.load(std::memory_order_acquire) != seen;
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
    std::array<due_text, report_table::slots> due;
    std::size_t count = 0;
    std::optional<clock::time_point> next;
    const auto at = [&next](clock::time_point when) {
      next = next ? std::min(*next, when) : when;
    };
    const auto now = clock::now();
    // Slots are looked at one by one. A text that arrives meanwhile must not overtake an earlier
    // one, whose slot has been passed already.
    const auto newest = table_.newest();
    for (std::size_t slot = 0; slot < report_table::slots; ++slot) {
      const auto state = table_.look(slot);
      if (state.waiting == 0) continue;
      if (state.sequence > newest) {
        at(now);
        continue;
      }
      const auto& text = texts[slot];
      if (everything || state.sequence != text.sequence || now >= text.due) {
        due[count++] = {slot, state.sequence};
      } else {
        at(text.due);
      }
    }
    std::sort(due.begin(), due.begin() + count,
              [](const due_text& a, const due_text& b) { return a.sequence < b.sequence; });
    for (std::size_t i = 0; i < count; ++i) {
      auto& text = texts[due[i].slot];
      report_table::text_buffer buffer;
      const auto line = table_.read(due[i].slot, buffer);
      if (due[i].sequence != text.sequence) {
        text = {due[i].sequence, shortest_interval, now + shortest_interval};
        table_.take(due[i].slot, 1);
        pass_on({line, 1});
        // Repetitions that arrived meanwhile, unless the slot holds another text by now.
        const auto rest = table_.look(due[i].slot);
        if (rest.waiting == 0) continue;
        if (!everything || rest.sequence != due[i].sequence) {
          at(rest.sequence == due[i].sequence ? text.due : now);
          continue;
        }
      } else {
        const bool was_quiet = now >= text.due + text.interval;
        text.interval = was_quiet ? clock::duration(shortest_interval)
                                  : std::min<clock::duration>(2 * text.interval, longest_interval);
        text.due = now + text.interval;
      }
      const auto repeated = table_.look(due[i].slot).waiting;
      table_.take(due[i].slot, repeated);
      pass_on({line, repeated});
    }
    say_dropped(now, everything);
    if (drops_.said != dropped_.load(std::memory_order_relaxed)) at(drops_.due);
    return next;
  }

  void pass_on(const report_message& message) noexcept {
    call(message);
    delivered_.fetch_add(message.count, std::memory_order_relaxed);
  }

  void say_dropped(clock::time_point now, bool everything) noexcept {
    const auto dropped = dropped_.load(std::memory_order_relaxed);
    if (dropped == drops_.said || (!everything && now < drops_.due)) return;
    std::array<char, 128> text;
    const int size =
        std::snprintf(text.data(), text.size(),
                      "%llu reports were dropped: %zu different texts were already waiting",
                      static_cast<unsigned long long>(dropped - drops_.said), report_table::slots);
    drops_ = {dropped, now + shortest_interval};
    if (size > 0) call({{text.data(), static_cast<std::size_t>(size)}, 1});
  }

  void call(const report_message& message) noexcept {
    {
      const std::lock_guard lock(calling_);
      running_ = handler_.load(std::memory_order_acquire);
      if (running_ != nullptr) {
        try {
          (*running_)(message);
        } catch (...) {  // an exception has no receiver
        }
        running_ = nullptr;
        delete std::exchange(to_delete_, nullptr);
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
  std::atomic<std::uint64_t> flush_asked_{0};
  std::atomic<std::uint64_t> flush_done_{0};
  one_way_signal flushed_;
  // Held while a handler runs. No reporting thread takes it.
  std::mutex calling_;
  std::atomic<report_handler*> handler_{nullptr};
  report_handler* running_ = nullptr;    // used only by the writer, like all members below
  report_handler* to_delete_ = nullptr;  // replaced by its own call
  struct {
    std::uint64_t said = 0;
    clock::time_point due{};
  } drops_;
  static constexpr clock::rep not_exiting = 0;
  std::atomic<clock::rep> exit_by_{not_exiting};  // a time of `clock`
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

void report(std::string_view what, std::string_view why) noexcept {
  const int before = errno;
  writer.add(what, why);
  errno = before;
}

}  // namespace sluice::detail

namespace sluice {

void set_report_handler(report_handler handler) {
  detail::writer.set_handler(handler ? new report_handler(std::move(handler)) : nullptr);
}

report_statistics report_counts() noexcept {
  return detail::writer.counts();
}

bool flush_reports(std::chrono::nanoseconds longest) noexcept {
  using std::chrono::steady_clock;
  const auto now = steady_clock::now();
  const bool forever = longest >= steady_clock::time_point::max() - now;
  return detail::writer.flush(forever ? steady_clock::time_point::max() : now + longest);
}

}  // namespace sluice
