// SPDX-License-Identifier: Apache-2.0
// The log of allocations, frees and reaps, and its sinks.
#include "runtime/core/runtime_core.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_log.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

std::uint64_t this_thread() {
  return static_cast<std::uint64_t>(::gettid());
}

class memory_log_on : public named_device_test {
 protected:
  void TearDown() override { close(); }

  void open(std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_log_sink> sink) {
    close();
    runtime_ = std::make_unique<device_runtime>(
        open_device(GetParam()),
        runtime_options{.resource = make_logging_resource(std::move(upstream), std::move(sink))});
    stream_ = runtime_->create_stream();
  }
  void open(std::unique_ptr<memory_resource> upstream) {
    log_ = std::make_shared<memory_log>();
    open(std::move(upstream), log_);
  }
  void close() {
    stream_ = {};
    runtime_.reset();
  }
  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_; }
  [[nodiscard]] block_ref allocate(std::size_t bytes, allocation_tag tag = "logged") const {
    return runtime().allocate_bytes(bytes, stream(), tag);
  }
  [[nodiscard]] std::vector<memory_record> records() const { return log_->snapshot(); }
  [[nodiscard]] std::vector<memory_record> records(memory_event event) const {
    auto all = records();
    std::erase_if(all, [&](const memory_record& record) { return record.event != event; });
    return all;
  }

 private:
  std::shared_ptr<memory_log> log_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
};
INSTANTIATE_TEST_SUITE_P(devices, memory_log_on, every_device(), parameter_name);

TEST_P(memory_log_on, has_one_record_of_each_event) {
  open(make_async_resource());
  auto block = allocate(1000, "weights");
  const auto id = block.id();
  const auto stream_id = stream().id();
  memory_record expected{.order = 1,
                         .event = memory_event::allocate,
                         .thread = this_thread(),
                         .stream = stream_id,
                         .address = id.address,
                         .bytes = 1000,
                         .tag = "weights",
                         .generation = id.generation};
  EXPECT_EQ(records(), std::vector{expected});
  // Another thread frees the block, and `async` returns the memory at once.
  std::uint64_t thread = 0;
  std::thread([&] {
    thread = this_thread();
    block = {};
  }).join();
  auto freed = expected;
  freed.order = 2;
  freed.event = memory_event::free;
  freed.thread = thread;
  auto reaped = freed;
  reaped.order = 3;
  reaped.event = memory_event::reap;
  reaped.stream = {};
  EXPECT_EQ(records(), (std::vector{expected, freed, reaped}));
  (void)allocate(0);
  EXPECT_EQ(records().size(), 3u) << "a block without memory";
}

TEST_P(memory_log_on, says_reap_when_memory_goes_back_to_the_device) {
  open(make_pool_resource(make_async_resource()));
  for (int i = 0; i < 10; ++i) (void)allocate(1000);
  EXPECT_EQ(records(memory_event::allocate).size(), 10u);
  EXPECT_EQ(records(memory_event::free).size(), 10u);
  EXPECT_TRUE(records(memory_event::reap).empty());
  (void)runtime().trim_memory();
  const auto reaped = records(memory_event::reap);
  ASSERT_EQ(reaped.size(), 1u);
  EXPECT_EQ(reaped[0].address, records()[0].address);
  EXPECT_EQ(reaped[0].bytes, 1024u);
  EXPECT_EQ(reaped[0].generation, 0u) << "it belonged to no block any more";

  // On the reclaim thread, and completely by the end of the runtime.
  open(make_pool_resource(make_direct_resource({.tracked = true})));
  for (const std::size_t bytes : {100, 5000, 70'000}) (void)allocate(bytes);
  close();
  EXPECT_EQ(records(memory_event::reap).size(), 3u);
  for (const auto& record : records(memory_event::reap)) EXPECT_NE(record.thread, this_thread());
}

TEST_P(memory_log_on, has_requests_that_fail) {
  const auto faults = std::make_shared<fault_countdown>();
  const auto budget = std::make_shared<memory_budget>(5000);
  open(make_failing_resource(make_budget_resource(make_async_resource(), budget), faults));
  // The runtime retries once, so two failures are needed.
  faults->fail_nth(1, 2);
  EXPECT_TRUE(throws(errc::out_of_memory, "", [&] { (void)allocate(64, "unlucky"); }));
  EXPECT_TRUE(throws(errc::over_budget, "", [&] { (void)allocate(6000, "greedy"); }));
  const auto all = records();
  ASSERT_EQ(all.size(), 4u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].event, memory_event::allocate);
    EXPECT_EQ(all[i].failure, i < 2 ? errc::out_of_memory : errc::over_budget);
    EXPECT_EQ(all[i].bytes, i < 2 ? 64u : 6000u);
    EXPECT_EQ(all[i].tag, i < 2 ? "unlucky" : "greedy");
    EXPECT_EQ(all[i].address, nullptr);
    EXPECT_EQ(all[i].stream, stream().id());
  }
  EXPECT_EQ(all[0].generation, all[1].generation);
  EXPECT_NE(all[1].generation, all[2].generation);

  open(make_async_resource());
  EXPECT_TRUE(throws(errc::out_of_memory, "", [&] { (void)allocate(std::size_t{1} << 52U); }));
  EXPECT_EQ(records().size(), 1u) << "more than the device has is not asked for twice";
  EXPECT_TRUE(records(memory_event::reap).empty()) << "what was not had does not go back";
}

TEST_P(memory_log_on, orders_what_threads_do_with_one_address) {
  open(make_pool_resource(make_async_resource()));
  constexpr int threads = 4;
  constexpr int each = 500;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, seed = process_seed() + static_cast<std::uint64_t>(t)] {
      std::mt19937_64 generator(seed);
      std::vector<block_ref> living;
      for (int i = 0; i < each; ++i) {
        living.push_back(allocate(1 + generator() % 600));
        if (generator() % 2 == 0) living.erase(living.begin());
      }
    });
  }
  for (auto& thread : all) thread.join();
  const auto logged = records();
  ASSERT_EQ(logged.size(), std::size_t{2} * threads * each);
  std::map<const void*, std::uint64_t> lives;  // the current generation at each address
  std::set<std::uint64_t> seen_threads;
  std::uint64_t order = 0;
  for (const auto& record : logged) {
    EXPECT_EQ(record.order, ++order);
    seen_threads.insert(record.thread);
    auto& there = lives[record.address];
    if (record.event == memory_event::allocate) {
      EXPECT_EQ(there, 0u) << "granted before it was freed";
      there = record.generation;
    } else {
      EXPECT_EQ(there, record.generation);
      there = 0;
    }
  }
  EXPECT_EQ(seen_threads.size(), std::size_t{threads});
}

TEST_P(memory_log_on, never_breaks_an_allocation) {
  class failing_sink final : public memory_log_sink {
   public:
    std::atomic<int> written{0};

   private:
    void write(const memory_record& record) override {
      if (record.order % 3 == 1) throw std::runtime_error("no paper");
      if (record.order % 3 == 2) throw 7;
      ++written;
    }
  };
  const auto sink = std::make_shared<failing_sink>();
  open(make_async_resource(), sink);
  for (int i = 0; i < 100; ++i) EXPECT_NO_THROW((void)allocate(100));
  EXPECT_EQ(runtime().bytes_outstanding(), 0u);
  close();
  EXPECT_EQ(sink->written, 100);
  EXPECT_EQ(sink->lost(), 200u);
}

TEST_P(memory_log_on, may_go_nowhere) {
  open(make_async_resource(), nullptr);
  EXPECT_NO_THROW((void)allocate(100));
  EXPECT_EQ(detail::runtime_core::of(runtime())->resource().name(), "logging");
}

TEST(memory_log, keeps_the_newest_records) {
  for (const std::size_t capacity : {0, 1, 7}) {
    memory_log log(capacity);
    for (std::size_t i = 1; i <= 20; ++i) {
      log.log({.bytes = i});
      EXPECT_EQ(log.lost(), i > capacity ? i - capacity : 0);
      const auto kept = log.snapshot();
      ASSERT_EQ(kept.size(), std::min(i, capacity));
      for (std::size_t k = 0; k < kept.size(); ++k) {
        EXPECT_EQ(kept[k].bytes, i - kept.size() + 1 + k);
        EXPECT_EQ(kept[k].order, kept[k].bytes);
      }
    }
  }
}

TEST(memory_log, needs_an_upstream) {
  EXPECT_TRUE(throws(errc::invalid_argument, "make_logging_resource: upstream must not be null",
                     [] { (void)make_logging_resource(nullptr); }));
}

/// A file that is deleted with the object.
class temporary_file {
 public:
  temporary_file() {
    auto name = (std::filesystem::temp_directory_path() / "sluice-log-XXXXXX").string();
    const int descriptor = ::mkstemp(name.data());
    if (descriptor >= 0) (void)::close(descriptor);
    path_ = name;
  }
  temporary_file(const temporary_file&) = delete;
  temporary_file& operator=(const temporary_file&) = delete;
  ~temporary_file() { std::filesystem::remove(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// The rows of the file, parsed according to RFC 4180.
  [[nodiscard]] std::vector<std::vector<std::string>> table() const {
    std::ifstream file(path_, std::ios::binary);
    std::stringstream all;
    all << file.rdbuf();
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> row(1);
    bool quoted = false;
    const auto text = all.str();
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        row.back() += text[++i];
      } else if (c == '"') {
        quoted = !quoted;
      } else if (!quoted && c == ',') {
        row.emplace_back();
      } else if (!quoted && c == '\n') {
        rows.push_back(std::exchange(row, std::vector<std::string>(1)));
      } else {
        row.back() += c;
      }
    }
    EXPECT_EQ(row, std::vector<std::string>(1)) << "the last line is not whole";
    return rows;
  }

 private:
  std::filesystem::path path_;
};

const std::vector<std::string> columns{"order", "event", "thread",     "stream", "address",
                                       "bytes", "tag",   "generation", "result"};

TEST_P(memory_log_on, in_a_file_says_what_the_one_in_memory_says) {
  const temporary_file file;
  const auto faults = std::make_shared<fault_countdown>();
  open(make_logging_resource(make_failing_resource(make_async_resource(), faults),
                             std::make_shared<memory_log_file>(file.path())));
  (void)allocate(1, "plain");
  (void)allocate(2, "a,b");
  (void)allocate(3, "they say \"much\"");
  (void)allocate(4, "two\nlines, \"quoted\"");
  (void)allocate(5, "");
  faults->fail_nth(1, 2);
  EXPECT_TRUE(throws(errc::out_of_memory, "", [&] { (void)allocate(6, "none"); }));
  close();
  const auto rows = file.table();
  const auto expected = records();
  ASSERT_EQ(expected.size(), 17u);
  ASSERT_EQ(rows.size(), expected.size() + 1);
  EXPECT_EQ(rows[0], columns);
  // The file's log is below the other one. Allocations and reaps have the same order in both, and
  // the two records of a free are adjacent.
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& record = expected[i];
    std::ostringstream address;
    if (record.address != nullptr) address << record.address;
    const auto stream = record.stream ? std::to_string(record.stream.runtime) + ":" +
                                            std::to_string(record.stream.index)
                                      : "";
    EXPECT_EQ(rows[i + 1], (std::vector<std::string>{
                               std::to_string(record.order), std::string(to_string(record.event)),
                               std::to_string(record.thread), stream, address.str(),
                               std::to_string(record.bytes), std::string(record.tag),
                               std::to_string(record.generation),
                               record.failure ? std::string(to_string(*record.failure)) : "ok"}));
  }
}

TEST(memory_log_file, has_what_was_flushed) {
  const temporary_file file;
  memory_log_file log(file.path());
  EXPECT_EQ(file.table(), (std::vector<std::vector<std::string>>{columns}));
  log.log({.bytes = 4});
  log.flush();
  EXPECT_EQ(file.table().size(), 2u);
  EXPECT_EQ(log.lost(), 0u);
}

TEST(memory_log_file, takes_records_of_many_threads) {
  const temporary_file file;
  constexpr int threads = 4;
  constexpr int each = 2000;
  {
    memory_log_file log(file.path());
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&] {
        for (int i = 0; i < each; ++i) log.log({.tag = "a tag"});
      });
    }
    for (auto& thread : all) thread.join();
    EXPECT_EQ(log.lost(), 0u);
  }
  std::set<std::uint64_t> orders;
  auto rows = file.table();
  rows.erase(rows.begin());
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), columns.size());
    orders.insert(std::stoull(row[0]));
  }
  EXPECT_EQ(orders.size(), std::size_t{threads} * each);
  EXPECT_EQ(*orders.rbegin(), std::uint64_t{threads} * each);
}

/// Ignores the signals of failed writes during its lifetime. By default they end a program.
class without_signals_of_failing_writes {
 public:
  without_signals_of_failing_writes() {
    for (const int number : {SIGXFSZ, SIGPIPE}) {
      handlers_.emplace_back(number, std::signal(number, SIG_IGN));
    }
  }
  without_signals_of_failing_writes(const without_signals_of_failing_writes&) = delete;
  without_signals_of_failing_writes& operator=(const without_signals_of_failing_writes&) = delete;
  ~without_signals_of_failing_writes() {
    for (const auto& [number, handler] : handlers_) (void)std::signal(number, handler);
  }

 private:
  std::vector<std::pair<int, void (*)(int)>> handlers_;
};

/// A log into a pipe without a reader.
std::unique_ptr<memory_log_file> log_that_nobody_reads() {
  int ends[2]{};
  EXPECT_EQ(::pipe(ends), 0);
  auto log = std::make_unique<memory_log_file>("/dev/fd/" + std::to_string(ends[1]));
  for (const int end : ends) (void)::close(end);
  return log;
}

TEST(memory_log_file, loses_what_does_not_fit_and_stays_whole) {
  const temporary_file file;
  constexpr std::uint64_t records = 5000;
  std::uint64_t lost = 0;
  {
    memory_log_file log(file.path());
    // The file must not grow beyond this size, as on a full disk. The limit falls within a line.
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    auto low = before;
    auto generator = make_generator();
    low.rlim_cur = 70'000 + generator() % 50'000;
    const without_signals_of_failing_writes ignored;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
    for (std::uint64_t i = 0; i < records; ++i) log.log({.bytes = i, .tag = "it does not fit"});
    log.flush();
    (void)::setrlimit(RLIMIT_FSIZE, &before);
    lost = log.lost();
    EXPECT_GT(lost, 0u);
    EXPECT_LT(lost, records);
    log.log({.tag = "it fits again"});
  }
  auto rows = file.table();
  EXPECT_EQ(rows.size(), 1 + records - lost + 1);
  for (const auto& row : rows) ASSERT_EQ(row.size(), columns.size());
  EXPECT_EQ(rows.back()[0], std::to_string(records + 1));
  EXPECT_EQ(rows.back()[6], "it fits again");
}

TEST(memory_log_file, counts_what_it_loses_after_the_file_was_shortened) {
  const temporary_file file;
  const without_signals_of_failing_writes ignored;
  memory_log_file log(file.path());
  for (int i = 0; i < 100; ++i) log.log({});
  log.flush();
  ASSERT_EQ(log.lost(), 0u);
  std::filesystem::resize_file(file.path(), 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto low = before;
  low.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  for (int i = 0; i < 100; ++i) log.log({});
  log.flush();
  (void)::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(log.lost(), 100u);
}

TEST(memory_log_file, loses_what_nobody_reads_any_more) {
  if (!std::filesystem::exists("/dev/fd")) GTEST_SKIP() << "this system has no /dev/fd";
  const without_signals_of_failing_writes ignored;
  auto log = log_that_nobody_reads();
  EXPECT_EQ(log->lost(), 0u);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    log->log({.bytes = 4});
    log->flush();
    EXPECT_EQ(log->lost(), i);
  }
  log->log({.bytes = 4});
  log = nullptr;
}

TEST(memory_log_file, says_at_once_that_it_cannot_begin) {
  EXPECT_TRUE(throws(errc::invalid_argument, "/nowhere/log.csv",
                     [] { memory_log_file log("/nowhere/log.csv"); }));
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_TRUE(throws(errc::invalid_argument, "'/dev/full' cannot be written",
                     [] { memory_log_file log("/dev/full"); }));
}

}  // namespace
}  // namespace sluice::test
