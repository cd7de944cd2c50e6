// SPDX-License-Identifier: Apache-2.0
// Refused imports and exports.
#include "runtime/interop/external_memory.hpp"
#include "tests/runtime/interop/dlpack_test.hpp"

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(dlpack_on, what_is_refused_is_still_the_callers) {
  const auto refused = [&](errc code, const std::string& field, auto spoil) {
    new_tensor tensor(words(10));
    spoil(*tensor.get());
    auto result = ::testing::AssertionSuccess();
    for (const import_options& options : {import_options{}, import_options{.ready = true},
                                          import_options{.stream = named(other_stream())}}) {
      result = throws(code, field, [&] { (void)import_dlpack(runtime(), tensor.get(), options); });
      if (!result) return result;
    }
    EXPECT_EQ(tensor.back.times.load(), 0);
    return result;
  };
  EXPECT_TRUE(refused(errc::unsupported, "version.major", [](auto& t) { t.version.major = 2; }));
  EXPECT_TRUE(refused(errc::unsupported, "version.major", [](auto& t) { t.version.major = 0; }));
  EXPECT_TRUE(refused(errc::invalid_argument, "ndim", [](auto& t) { t.tensor.ndim = -1; }));
  EXPECT_TRUE(refused(errc::unsupported, "ndim", [](auto& t) { t.tensor.ndim = 9; }));
  EXPECT_TRUE(refused(errc::invalid_argument, "device.device_type",
                      [](auto& t) { t.tensor.device.type = 10; }));
  EXPECT_TRUE(refused(errc::invalid_argument, "device.device_type", [&](auto& t) {
    t.tensor.device.type = on_host() ? dlpack::cuda : dlpack::cpu;
  }));
  EXPECT_TRUE(refused(errc::invalid_argument, "device.device_type", [&](auto& t) {
    t.tensor.device.type = on_host() ? dlpack::cuda_managed : dlpack::cuda_host;
  }));
  if (on_host()) {
    new_tensor tensor(words(10));
    const auto a = runtime().allocate<std::uint32_t>(10, stream());
    for (const std::uintptr_t of_cuda : {1, 2}) {
      const foreign_stream named(of_cuda);
      EXPECT_TRUE(throws(errc::invalid_argument, "stream",
                         [&] { (void)import_dlpack(runtime(), tensor.get(), {.stream = named}); }));
      EXPECT_TRUE(throws(errc::invalid_argument, "stream",
                         [&] { (void)export_dlpack(runtime(), a, {.stream = named}); }));
    }
    EXPECT_EQ(tensor.back.times.load(), 0);
  } else {
    EXPECT_TRUE(refused(errc::invalid_argument, "device.device_id",
                        [](auto& t) { t.tensor.device.id = 99; }));
  }
  expect_nothing_is_out();
  EXPECT_TRUE(throws(errc::invalid_argument, "tensor", [&] {
    (void)import_dlpack(runtime(), static_cast<dlpack::managed_tensor*>(nullptr));
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "tensor", [&] {
    (void)import_dlpack(runtime(), static_cast<dlpack::versioned_tensor*>(nullptr));
  }));
}

TEST_P(dlpack_on, a_runtime_that_is_closing_takes_nothing) {
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  (void)owned->shut_down();
  for (const import_options& options : {import_options{}, import_options{.ready = true}}) {
    EXPECT_TRUE(throws(errc::shutting_down, "",
                       [&] { (void)import_dlpack(*owned, tensor.get(), options); }));
  }
  EXPECT_EQ(tensor.back.times.load(), 0);
}

TEST(dlpack_devices, have_a_number_where_the_memory_is_that_of_one_gpu) {
  const auto on_gpu_1 = [](std::int32_t type, std::int64_t id) {
    detail::require_device({device_kind::cuda, 1}, type, id, "type", "id");
  };
  EXPECT_NO_THROW(on_gpu_1(dlpack::cuda, 1));
  EXPECT_TRUE(throws(errc::invalid_argument, "id", [&] { on_gpu_1(dlpack::cuda, 0); }));
  EXPECT_NO_THROW(on_gpu_1(dlpack::cuda_managed, 0));
  device_runtime numbered(open_host_device({.ordinal = 3}));
  const auto s = numbered.create_stream();
  auto* out = export_dlpack(numbered, numbered.allocate<float>(4, s));
  EXPECT_EQ(out->tensor.device.type, dlpack::cpu);
  EXPECT_EQ(out->tensor.device.id, 0);
  out->deleter(out);
}

TEST_P(dlpack_on, a_stream_of_another_gpu_is_refused) {
  if (on_host()) GTEST_SKIP() << "a host device takes streams of any other one";
  if (!has_device("cuda:1")) GTEST_SKIP() << "this machine has one GPU";
  device_runtime second(open_device("cuda:1"));
  const auto theirs = second.create_stream();
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  EXPECT_TRUE(throws(errc::invalid_argument, "stream",
                     [&] { (void)export_dlpack(runtime(), a, {.stream = named(theirs)}); }));
  new_tensor tensor(words(10));
  EXPECT_TRUE(throws(errc::invalid_argument, "stream", [&] {
    (void)import_dlpack(runtime(), tensor.get(), {.stream = named(theirs)});
  }));
  EXPECT_EQ(tensor.back.times.load(), 0);
  expect_nothing_is_out();
}

TEST_P(dlpack_on, what_cannot_be_exported_is_refused) {
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  const auto refused = [&](errc code, const std::string& word, const tensor& t) {
    return throws(code, word, [&] { (void)export_dlpack(runtime(), t); });
  };
  EXPECT_TRUE(refused(errc::invalid_argument, "no block", tensor()));
  EXPECT_TRUE(refused(errc::invalid_argument, "runtime", words(4)));
  EXPECT_EQ(runtime().statistics().exports, 0u);
  runtime().deallocate(a.block());
  EXPECT_TRUE(refused(errc::stale_ref, "", a));

  device_runtime untracked(open_device(GetParam()), {.resource = make_direct_resource()});
  const auto own_stream = untracked.create_stream();
  const auto b = untracked.allocate<std::uint32_t>(10, own_stream);
  EXPECT_TRUE(throws(errc::stream_misuse, "track", [&] { (void)export_dlpack(untracked, b); }));
}

}  // namespace
}  // namespace sluice::test
