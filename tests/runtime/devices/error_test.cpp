// SPDX-License-Identifier: Apache-2.0
#include "tests/support/failing_allocations.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace sluice::test {
namespace {

static_assert(std::is_nothrow_copy_constructible_v<error>);

constexpr errc all[] = {errc::invalid_argument, errc::stale_ref,       errc::stream_misuse,
                        errc::out_of_memory,    errc::over_budget,     errc::unsupported,
                        errc::library_failure,  errc::upstream_failed, errc::cancelled,
                        errc::overloaded,       errc::shutting_down,   errc::device_lost};

TEST(error_codes, have_names_of_their_own) {
  std::set<std::string_view> names;
  for (const auto code : all) names.insert(to_string(code));
  EXPECT_EQ(names.size(), std::size(all));
  EXPECT_EQ(to_string(errc::stale_ref), "stale_ref");
  EXPECT_EQ(to_string(static_cast<errc>(200)), "unknown");
}

TEST(error_codes, say_whether_to_try_again) {
  for (const auto code : all) {
    const bool retry =
        code == errc::out_of_memory || code == errc::over_budget || code == errc::overloaded;
    EXPECT_EQ(is_retryable(code), retry) << to_string(code);
  }
}

TEST(errors, keep_what_they_were_made_of) {
  const auto before = source_location::current();
  const error plain(errc::unsupported, "no f16");
  EXPECT_EQ(plain.where().line(), before.line() + 1) << "where it was made";
  EXPECT_STREQ(plain.where().function_name(), before.function_name());
  EXPECT_EQ(plain.code(), errc::unsupported);
  EXPECT_STREQ(plain.what(), "no f16");
  EXPECT_TRUE(plain.status().library.empty());
  EXPECT_NE(std::string(plain.where().file_name()).find("error_test"), std::string::npos);
  const error from_library(errc::library_failure, "failed", {"cuBLAS", 13});
  EXPECT_EQ(from_library.status(), (library_status{"cuBLAS", 13}));
  const auto copy = from_library;
  EXPECT_EQ(copy.status().value, 13);
  EXPECT_STREQ(copy.what(), "failed");
}

template <class Thrown>
error caught(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return current_error();
  }
}

TEST(current_error, makes_an_error_of_any_exception) {
  EXPECT_EQ(caught(error(errc::cancelled, "x")).code(), errc::cancelled);
  EXPECT_EQ(caught(std::bad_alloc()).code(), errc::out_of_memory);
  EXPECT_EQ(caught(std::runtime_error("boom")).code(), errc::library_failure);
  EXPECT_STREQ(caught(std::runtime_error("boom")).what(), "boom");
  EXPECT_EQ(caught(42).code(), errc::library_failure);
}

// Destructors and completions have no caller to which an exception could propagate.
TEST(current_error, needs_no_memory) {
  try {
    throw std::runtime_error("a text that is too long to be kept without memory");
  } catch (...) {
    fail_allocation(1);
    const auto e = current_error();
    const bool struck = !allocation_is_to_fail();
    fail_allocation(0);
    EXPECT_TRUE(struck);
    EXPECT_EQ(e.code(), errc::out_of_memory);
  }
}

TEST(a_lost_device, says_so_without_memory) {
  const auto device = open_host_device();
  device->lose(error(errc::library_failure, "the cause"));
  fail_allocation(1);
  const auto e = device->loss();
  const bool struck = !allocation_is_to_fail();
  fail_allocation(0);
  EXPECT_TRUE(struck);
  EXPECT_EQ(e.code(), errc::device_lost);
}

}  // namespace
}  // namespace sluice::test
