// SPDX-License-Identifier: Apache-2.0
#include "service/worker/shared_input.hpp"

#include <sluice/runtime/dlpack.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

/// The smallest input in bytes that is not copied: an import takes about as long as a copy of it.
constexpr std::size_t least_import_bytes = std::size_t{64} << 10U;

[[nodiscard]] dlpack::type_code code_of(element_type type) noexcept {
  switch (type) {
    case element_type::boolean:
      return dlpack::boolean;
    case element_type::i8:
    case element_type::i16:
    case element_type::i32:
    case element_type::i64:
      return dlpack::signed_integer;
    case element_type::f16:
    case element_type::f32:
    case element_type::f64:
      return dlpack::real;
    case element_type::bf16:
      return dlpack::bfloat;
    default:
      return dlpack::unsigned_integer;  // the protocol has no other types
  }
}

/// What `import_dlpack` takes over.
struct shared_tensor {
  std::shared_ptr<const void> elements;
  std::vector<std::int64_t> shape;
  dlpack::versioned_tensor tensor{};
};

[[nodiscard]] tensor import_input(device_runtime& runtime, const host_tensor& input) {
  auto shared = std::make_unique<shared_tensor>(
      shared_tensor{input.data(), {input.shape().begin(), input.shape().end()}});
  shared->tensor = {
      .version = {.major = 1, .minor = 0},
      .manager_ctx = shared.get(),
      .deleter =
          [](dlpack::versioned_tensor* tensor) {
            delete static_cast<shared_tensor*>(tensor->manager_ctx);
          },
      .flags = dlpack::read_only_flag,
      .tensor = {.data = const_cast<void*>(shared->elements.get()),
                 .device = {.type = dlpack::cpu, .id = 0},
                 .ndim = static_cast<std::int32_t>(shared->shape.size()),
                 .dtype = {.code = code_of(input.type()),
                           .bits = static_cast<std::uint8_t>(8 * size_of(input.type())),
                           .lanes = 1},
                 .shape = shared->shape.data(),
                 .strides = nullptr,
                 .byte_offset = 0}};
  auto imported =
      import_dlpack(runtime, &shared->tensor, {.ready = true, .tag = "input of a request"});
  (void)shared.release();
  return imported;
}

}  // namespace

run_input shared_input(device_service& service, run_input&& input) {
  const bool is_host = service.device().id().kind == device_kind::host;
  if (!is_host || !input.on_host() || input.on_host().bytes() < least_import_bytes) {
    return std::move(input);
  }
  return import_input(service.runtime(), input.on_host());
}

}  // namespace sluice::service
