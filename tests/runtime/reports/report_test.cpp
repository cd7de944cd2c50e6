// SPDX-License-Identifier: Apache-2.0
#include "runtime/reports/report.hpp"

#include "runtime/base/sanitizers.hpp"
#include "runtime/host/annotations.hpp"
#include "runtime/reports/report_table.hpp"
#include "tests/support/collected_reports.hpp"
#include "tests/support/failing_allocations.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/report.hpp>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using detail::report;

constexpr auto for_ever = std::chrono::nanoseconds::max();

/// A text that no other test reports.
std::string fresh_text() {
  static std::mt19937_64 generator = make_generator();
  return "text " + std::to_string(generator());
}

/// Makes standard error a full pipe without a reader, until `read_all` or the destructor.
class blocked_standard_error {
 public:
  blocked_standard_error() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    const int flags = ::fcntl(ends_[1], F_GETFL);
    (void)::fcntl(ends_[1], F_SETFL, flags | O_NONBLOCK);
    const std::array<char, 4096> nothing{};
    while (::write(ends_[1], nothing.data(), nothing.size()) > 0) {
    }
    (void)::fcntl(ends_[1], F_SETFL, flags);
    saved_ = ::dup(STDERR_FILENO);
    (void)::dup2(ends_[1], STDERR_FILENO);
  }
  blocked_standard_error(const blocked_standard_error&) = delete;
  blocked_standard_error& operator=(const blocked_standard_error&) = delete;
  ~blocked_standard_error() { (void)read_all(); }

  /// Leaves standard error blocked for the rest of the process.
  void keep_blocked() noexcept { saved_ = -1; }
  /// Restores standard error and returns everything that was written meanwhile.
  std::string read_all() {
    if (saved_ < 0) return {};
    std::string text;
    std::thread reader([&] {
      std::array<char, 4096> part;
      for (ssize_t size = 0; (size = ::read(ends_[0], part.data(), part.size())) > 0;) {
        text.append(part.data(), static_cast<std::size_t>(size));
      }
    });
    (void)flush_reports(for_ever);
    (void)::dup2(saved_, STDERR_FILENO);
    ::close(std::exchange(saved_, -1));
    ::close(ends_[1]);
    reader.join();
    ::close(ends_[0]);
    const auto filling = std::min(text.find_first_not_of('\0'), text.size());
    return text.substr(filling);
  }

 private:
  std::array<int, 2> ends_{};
  int saved_ = -1;
};

/// The number of reports of `text` that the lines stand for.
std::uint64_t count_in(const std::string& lines, const std::string& text) {
  const std::string prefix = "sluice: " + text;
  std::uint64_t sum = 0;
  for (auto position = lines.find(prefix); position != std::string::npos;
       position = lines.find(prefix, position)) {
    position += prefix.size();
    const std::string repeated = " (repeated ";
    sum += lines.compare(position, repeated.size(), repeated) == 0
               ? std::stoull(lines.substr(position + repeated.size()))
               : 1;
  }
  return sum;
}

report_statistics since(const report_statistics& before) {
  const auto now = report_counts();
  return {now.reported - before.reported, now.delivered - before.delivered,
          now.dropped - before.dropped};
}

TEST(reports, do_not_wait_for_a_standard_error_that_nobody_reads) {
  (void)flush_reports(for_ever);
  const auto before = report_counts();
  const auto refused = fresh_text();
  const auto rare = fresh_text();
  constexpr std::uint64_t threads = 4;
  constexpr std::uint64_t each = 5000;
  blocked_standard_error blocked;
  std::vector<std::thread> reporting;
  for (std::uint64_t t = 0; t < threads; ++t) {
    reporting.emplace_back([&] {
      for (std::uint64_t i = 0; i < each; ++i) report(refused, "nobody asked");
    });
  }
  for (auto& thread : reporting) thread.join();  // without the fix the threads block here for ever
  report(rare);
  EXPECT_EQ(since(before).reported, threads * each + 1);
  EXPECT_FALSE(flush_reports(0ns));

  const auto lines = blocked.read_all();
  EXPECT_EQ(count_in(lines, refused + ": nobody asked"), threads * each);
  EXPECT_EQ(count_in(lines, rare), 1u) << "a flood of equal reports displaces no other";
  const auto after = since(before);
  EXPECT_EQ(after.delivered, after.reported);
  EXPECT_EQ(after.dropped, 0u);
}

TEST(reports, go_to_a_new_handler_although_standard_error_is_blocked) {
  (void)flush_reports(for_ever);
  blocked_standard_error blocked;
  const auto text = fresh_text();
  report(text);
  std::atomic<std::uint64_t> handled{0};
  set_report_handler([&](const report_message&) { ++handled; });  // does not wait
  set_report_handler({});
  // The report goes to whichever is there when the writer comes to it.
  EXPECT_EQ(count_in(blocked.read_all(), text) + handled, 1U);
}

TEST(reports, are_handled_with_their_number_on_one_other_thread) {
  const collected_reports reports;
  const auto text = fresh_text();
  constexpr std::uint64_t many = 1795;
  for (std::uint64_t i = 0; i < many; ++i) report("refused", text);
  EXPECT_EQ(reports.count("refused: " + text), many);
  const auto messages = reports.messages();
  ASSERT_FALSE(messages.empty());
  EXPECT_EQ(messages.front().count, 1u) << "the first is not held back";
  EXPECT_LT(messages.size(), many) << "equal reports are delivered together";
  for (const auto& message : messages) {
    EXPECT_EQ(message.thread, messages.front().thread);
    EXPECT_NE(message.thread, std::this_thread::get_id());
  }
}

TEST(reports, are_delivered_in_the_order_of_their_first_occurrence) {
  const collected_reports reports;
  std::string expected;
  for (std::size_t i = 0; i < detail::report_table::slots; ++i) {
    const auto text = fresh_text();
    report(text);
    expected += text + '\n';
  }
  EXPECT_EQ(reports.text(), expected);
}

TEST(reports, are_new_to_a_new_handler) {
  const auto text = fresh_text();
  for (int i = 0; i < 3; ++i) {
    const collected_reports reports;
    report(text);
    EXPECT_EQ(reports.text(), text + '\n');
  }
}

TEST(reports, beyond_what_can_wait_are_dropped_and_counted) {
  (void)flush_reports(for_ever);
  const auto before = report_counts();
  constexpr std::size_t slots = detail::report_table::slots;
  constexpr std::size_t more = 100;
  std::atomic<bool> reached{false};
  std::atomic<bool> open{false};
  std::vector<std::string> texts;
  set_report_handler([&](const report_message& message) {
    reached = true;
    await([&] { return open.load(); });
    texts.emplace_back(message.text);
  });
  report(fresh_text());
  await([&] { return reached.load(); });
  // The slot of the text that is being handled is available for others.
  for (std::size_t i = 0; i < slots + more; ++i) report(fresh_text());
  EXPECT_EQ(since(before).reported, 1 + slots + more);
  EXPECT_EQ(since(before).dropped, more);
  open = true;
  EXPECT_TRUE(flush_reports(for_ever));
  set_report_handler({});
  EXPECT_EQ(since(before).delivered, 1 + slots);
  EXPECT_EQ(texts.size(), 1 + slots + 1);
  EXPECT_EQ(std::ranges::count(texts,
                               "100 reports were dropped: 64 different texts were already waiting"),
            1);
}

TEST(report_handler, has_returned_for_good_when_another_one_is_set) {
  for (int round = 0; round < 100; ++round) {
    std::atomic<bool> reached{false};
    bool returned = false;
    set_report_handler([&](const report_message&) {
      reached = true;
      std::this_thread::yield();
      returned = true;
    });
    report(fresh_text());
    await([&] { return reached.load(); });
    set_report_handler({});
    EXPECT_TRUE(returned);
  }
}

TEST(report_handler, may_report_replace_itself_and_throw) {
  const collected_reports reports;
  const auto text = fresh_text();
  const auto inner = fresh_text();
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  set_report_handler([&, owned = std::vector<int>(1000, 1)](const report_message&) {
    ++first;
    report(inner);
    EXPECT_FALSE(flush_reports(for_ever));
    set_report_handler([&](const report_message&) {
      ++second;
      throw std::runtime_error("nobody hears this");
    });
    EXPECT_EQ(owned.back(), 1) << "it lives until it returns";
  });
  report(text);
  EXPECT_TRUE(flush_reports(for_ever));
  EXPECT_TRUE(flush_reports(for_ever));
  EXPECT_EQ(first.load(), 1);
  EXPECT_EQ(second.load(), 1);
  set_report_handler({});
}

TEST(reports, allocate_nothing_and_leave_errno_alone) {
  const collected_reports reports;
  const std::string text = fresh_text();
  const std::string why(2000, 'x');
  fail_allocations_from(1);
  errno = ENOENT;
  for (int i = 0; i < 100; ++i) report(text, why);
  const int number = errno;
  const bool untouched = allocation_is_to_fail();
  fail_allocations_from(0);
  EXPECT_TRUE(untouched);
  EXPECT_EQ(number, ENOENT);
}

// Tests at the end of a process. "^...$" matches everything on standard error.

struct reports_in_its_destructor {
  ~reports_in_its_destructor() { report("in a destructor"); }
};

TEST(reports_at_exit, are_written) {
  const auto run = [] {
    static const reports_in_its_destructor late;
    report("in main");
    std::exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "^sluice: in main\nsluice: in a destructor\n$");
}

TEST(reports_at_exit, do_not_keep_the_process) {
  const auto run = [] {
    static const reports_in_its_destructor late;
    static blocked_standard_error blocked;
    for (int i = 0; i < 1000; ++i) report(std::to_string(i));
    blocked.keep_blocked();
    std::exit(0);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "");
}

TEST(reports_at_exit, are_the_parents_alone_after_a_fork) {
#if defined(SLUICE_ADDRESS_SANITIZER)
  GTEST_SKIP() << "LeakSanitizer cannot stop the parent's threads in a child: false leaks";
#endif
  if (host::thread_sanitizer_on) {
    GTEST_SKIP() << "ThreadSanitizer lets no child of a process with threads start threads";
  }
  const auto run = [] {
    (void)flush_reports(for_ever);
    // The handler blocks, so the parent's report is still waiting when the parent forks.
    static std::atomic<bool> reached{false};
    static std::atomic<bool> open{false};
    const auto parent = ::getpid();
    set_report_handler([parent](const report_message& message) {
      reached = true;
      if (::getpid() == parent) await([] { return open.load(); });
      const auto line = std::string(message.text) + '\n';
      (void)!::write(STDERR_FILENO, line.data(), line.size());
    });
    report("first");
    await([] { return reached.load(); });
    report("waiting");
    const auto child = ::fork();
    if (child == 0) {
      if (report_counts().reported != 0) ::_exit(4);
      report("of the child");
      std::exit(0);
    }
    int status = -1;
    (void)::waitpid(child, &status, 0);
    open = true;
    std::exit(WIFEXITED(status) ? WEXITSTATUS(status) : 5);
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "^of the child\nfirst\nwaiting\n$");
}

// Reporting must not order two threads, because that would hide a missing wait between two stream
// threads. ThreadSanitizer judges this in a child process.

enum class texts { equal, different, in_used_slots };

[[noreturn]] void race_around_reports(texts kind) {
  static int raced = 0;
  static std::atomic<bool> written{false};
  set_report_handler([](const report_message&) {});
  const auto report_all = [kind](const std::string& name) {
    const auto count = kind == texts::in_used_slots ? detail::report_table::slots : 1;
    for (std::size_t i = 0; i < count; ++i)
      report(kind == texts::equal ? "equal" : name, std::to_string(i));
  };
  report("the writer exists");
  // Otherwise a slow start of the report thread leaves no slot for the last text.
  await([] { return flush_reports(std::chrono::seconds(1)); });
  std::thread writes([&] {
    raced = 1;
    report_all("first");
    written.store(true, std::memory_order_relaxed);
  });
  std::thread reads([&] {
    await([] { return written.load(std::memory_order_relaxed); });
    if (kind == texts::in_used_slots) {
      await([] { return report_counts().delivered > detail::report_table::slots; });
    }
    report_all("second");
    if (raced != 1) std::abort();
  });
  writes.join();
  reads.join();
  std::exit(0);
}

class reports_of_two_threads : public ::testing::TestWithParam<texts> {};
std::string name_of(const ::testing::TestParamInfo<texts>& parameter) {
  constexpr std::array names{"equal", "different", "in_used_slots"};
  return names[static_cast<std::size_t>(parameter.param)];
}
INSTANTIATE_TEST_SUITE_P(texts, reports_of_two_threads,
                         ::testing::Values(texts::equal, texts::different, texts::in_used_slots),
                         name_of);

TEST_P(reports_of_two_threads, are_not_ordered_for_the_thread_sanitizer) {
  if (!host::thread_sanitizer_on) GTEST_SKIP() << "only ThreadSanitizer can see this";
  EXPECT_EXIT(race_around_reports(GetParam()), ::testing::ExitedWithCode(66), "data race");
}

}  // namespace
}  // namespace sluice::test
