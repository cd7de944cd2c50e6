// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

/// The services of gRPC as clients of reflection see them: open_inference.proto, and
/// health.proto, which has the name of gRPC's own file.
/// Thread-safe.
namespace sluice::service {

/// The full names of the services.
[[nodiscard]] std::span<const std::string_view> service_names() noexcept;

/// An encoded `google.protobuf.FileDescriptorProto`; nothing if there is no such file.
[[nodiscard]] std::optional<std::string> descriptor_of_file(const std::string& name);
/// The file that declares a service, a method, a message or an enumeration with this full name;
/// nothing if there is none.
[[nodiscard]] std::optional<std::string> descriptor_of_symbol(const std::string& name);

}  // namespace sluice::service
