// SPDX-License-Identifier: Apache-2.0
#include "service/base/log.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <fcntl.h>
#include <random>
#include <string>
#include <unistd.h>

namespace sluice::service {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::system_clock;

constexpr system_clock::time_point late{milliseconds(1'772'323'199'007)};

std::string text_line(std::initializer_list<log_field> fields) {
  return log_line(log_format::text, late, log_level::info, "model is served", fields);
}

/// Whether it is one line of printable ASCII.
bool is_one_line(const std::string& line) {
  return line.size() > 1 && line.back() == '\n' &&
         std::all_of(line.begin(), line.end() - 1, [](char c) { return c >= ' ' && c < 0x7f; });
}

TEST(log, has_lines_of_text) {
  EXPECT_EQ(text_line({}), "sluiced: model is served\n");
  EXPECT_EQ(text_line({{"model", "a-b_1.x"}, {"version", 3}, {"why", "x \"y\""}, {"none", ""}}),
            "sluiced: model is served, model=a-b_1.x version=3 why=\"x \\\"y\\\"\" none=\"\"\n");
}

TEST(log, has_lines_of_json) {
  EXPECT_EQ(log_line(log_format::json, late, log_level::warning, "worker ended",
                     {{"worker", 17}, {"how", "killed by signal 9 (Killed)"}}),
            "{\"time\":\"2026-02-28T23:59:59.007Z\",\"level\":\"warning\",\"event\":\"worker "
            "ended\",\"worker\":17,\"how\":\"killed by signal 9 (Killed)\"}\n");
}

TEST(log, cannot_be_forged) {
  const std::string hostile =
      "m\nsluiced: model is served, model=other\r\n\x1b[2K\x7f\xc2\x85\xe2\x80\xa8\xe2\x80\xae\xff";
  const auto line = text_line({{"model", hostile}, {"version", 1}});
  EXPECT_TRUE(is_one_line(line)) << line;
  EXPECT_EQ(line.substr(0, 40), "sluiced: model is served, model=\"m\\nslui");
  EXPECT_EQ(line.substr(line.size() - 12), "\" version=1\n");

  auto generator = sluice::test::make_generator();
  for (int round = 0; round < 5'000; ++round) {
    std::string name;
    for (auto n = generator() % 40; n > 0; --n) {
      constexpr std::string_view likely = "\"\\\n\r= ,{}:";
      name += generator() % 2 == 0 ? likely[generator() % likely.size()]
                                   : static_cast<char>(generator() % 256);
    }
    ASSERT_TRUE(is_one_line(text_line({{"model", name}})));
    const auto text = log_line(log_format::json, late, log_level::error, "model has a problem",
                               {{"model", name}});
    ASSERT_TRUE(is_one_line(text));
    const auto parsed = json::parse(text);
    ASSERT_EQ(parsed.size(), 4U);
    ASSERT_EQ(parsed.at("event"), "model has a problem");
    ASSERT_EQ(parsed.at("model"),
              json::parse(json(name).dump(-1, ' ', false, json::error_handler_t::replace)));
  }
}

TEST(log, does_not_wait_for_a_reader) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const int former = ::dup(STDERR_FILENO);
  ASSERT_EQ(::dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  const std::string page(4096, 'x');
  while (::write(ends[1], page.data(), page.size()) > 0) {
  }
  // A write would wait from now on.
  (void)::fcntl(ends[1], F_SETFL, 0);
  for (int i = 0; i < 3; ++i) write_log(log_level::info, "lost", {});
  std::string text(std::size_t{1} << 20, ' ');
  while (::read(ends[0], text.data(), text.size()) > 0) {
  }
  write_log(log_level::info, "kept", {});
  const auto bytes = ::read(ends[0], text.data(), text.size());
  (void)::dup2(former, STDERR_FILENO);
  for (const int descriptor : {former, ends[0], ends[1]}) (void)::close(descriptor);
  ASSERT_GT(bytes, 0);
  EXPECT_EQ(text.substr(0, static_cast<std::size_t>(bytes)),
            "sluiced: kept\n"
            "sluiced: lines of the log were lost, because nobody read them, lines=3\n");
}

}  // namespace
}  // namespace sluice::service
