// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/small_launches.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/stream.hpp>

#include <gtest/gtest.h>

#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice::test {

/// Whether this machine has the device called `name`: "host", "cuda", "cuda:1".
inline bool has_device(const std::string& name) {
  const device_id wanted = parse_device_id(name);
  if (wanted.kind == device_kind::host) return true;
  for (const device_info& info : list_devices()) {
    if (info.id == wanted) return true;
  }
  return false;
}

/// A test with the name of a device as its parameter. It is skipped on a machine without the
/// device.
class named_device_test : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_device(GetParam())) {
      GTEST_SKIP() << "this machine has no device '" << GetParam() << "'";
    }
  }
};

/// Runs each test on the device that its parameter names, with a new runtime and a stream.
///
///     class gemm : public sluice::test::device_test {};
///     TEST_P(gemm, is_right) { auto a = upload(runtime(), stream(), values); ... }
///     INSTANTIATE_TEST_SUITE_P(devices, gemm, sluice::test::every_device(),
///                              sluice::test::parameter_name);
class device_test : public named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    runtime_ = std::make_unique<device_runtime>(open_device(GetParam()));
    stream_ = runtime_->create_stream();
  }
  void TearDown() override {
    stream_ = sluice::stream();
    runtime_.reset();
  }

  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] stream_ref stream() const { return stream_.ref(); }
  [[nodiscard]] bool on_host() const { return runtime_->device().id().kind == device_kind::host; }

 private:
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
};

/// The devices for which a suite is instantiated.
inline auto every_device() {
  return ::testing::Values(std::string("host"), std::string("cuda"));
}

/// Names a test after its device: "host", "cuda_1".
inline std::string parameter_name(const ::testing::TestParamInfo<std::string>& parameter) {
  std::string name = parameter.param;
  for (char& c : name) {
    if (c == ':') c = '_';
  }
  return name;
}

/// Copies `values` into new device memory. Synchronizes `stream`.
template <std::ranges::contiguous_range Values>
[[nodiscard]] auto upload(device_runtime& runtime, stream_ref stream, const Values& values) {
  const std::span source(values);
  using value = std::remove_cv_t<typename decltype(source)::element_type>;
  gpu_ref<value> ref = runtime.allocate<value>(source.size(), stream, "test");
  if (!source.empty()) {
    launch_recorder recorder = begin_write(ref, stream);
    stream.device().copy(ref.data(), source.data(), source.size_bytes(),
                         copy_direction::host_to_device, stream.native());
    recorder.commit();
    stream.synchronize();
  }
  return ref;
}

/// Copies the elements of `ref` to the host, after every recorded write. Synchronizes `stream`.
template <element T>
[[nodiscard]] std::vector<T> download(const gpu_ref<T>& ref, stream_ref stream) {
  std::vector<T> values(ref.size());
  if (!values.empty()) {
    launch_recorder recorder = begin_read(ref, stream);
    stream.device().copy(values.data(), ref.data(), ref.bytes(), copy_direction::device_to_host,
                         stream.native());
    recorder.commit();
    stream.synchronize();
  }
  return values;
}

}  // namespace sluice::test
