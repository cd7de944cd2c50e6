// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"
#include "models/node.hpp"

#include <sluice/operations/scalar.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::models {

/// Reads attributes that an `attribute_writer` has written. Nothing that a file states is trusted.
/// Each function returns nothing if the attribute is not given, and throws `invalid_argument` with
/// the name of the attribute if it has another type or form.
class attribute_reader {
 public:
  explicit attribute_reader(const attribute_map& attributes) noexcept : attributes_(attributes) {}

  [[nodiscard]] bool is_given(std::string_view name) const {
    return attributes_.find(name) != attributes_.end();
  }
  [[nodiscard]] std::optional<std::int64_t> integer(std::string_view name);
  [[nodiscard]] std::optional<bool> boolean(std::string_view name);
  /// At most `extents::max_rank` integers.
  [[nodiscard]] std::optional<extents> integers(std::string_view name);
  [[nodiscard]] std::optional<std::string_view> text(std::string_view name);
  [[nodiscard]] std::optional<double> real(std::string_view name);
  /// As many real numbers as `values` has, which gets them. Returns whether they are given.
  [[nodiscard]] bool reals(std::string_view name, std::span<double> values);
  [[nodiscard]] std::optional<scalar> number(std::string_view name);
  /// The number of the text among `names`.
  [[nodiscard]] std::optional<std::size_t> enumerator(std::string_view name,
                                                      std::span<const std::string_view> names);

  /// Refuses the attributes that no function has been called for.
  /// @throws error `invalid_argument` with the name of such an attribute
  void require_no_other(std::string_view operation) const;

 private:
  [[nodiscard]] const onnx::AttributeProto* find(std::string_view name);
  [[nodiscard]] const onnx::AttributeProto* find(std::string_view name,
                                                 onnx::AttributeProto::AttributeType type);

  const attribute_map& attributes_;
  std::vector<std::string_view> known_;
};

}  // namespace sluice::models
