// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/derived_constants.hpp"
#include "models/step_scope.hpp"
#include "models/value.hpp"

#include <sluice/models/model.hpp>
#include <sluice/operations/math_mode.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::models {

/// Inserts the conversions between f32 and a type of 16 bits that a `model_precision` needs. A
/// value of 16 bits that the file has as f32 is **narrow**; values that the file has in the type of
/// 16 bits are not changed.
class precision_import {
 public:
  /// @throws error `invalid_argument` if `precision` is no enumerator
  precision_import(step_scope& scope, derived_constants& derived, model_precision precision);

  /// How the products of an operator are computed.
  [[nodiscard]] math_mode math(std::string_view op_type) const noexcept;

  /// Which results of a node become narrow.
  struct result_types {
    bool narrow = false;     ///< those of the type of 16 bits are
    bool converted = false;  ///< the first one is converted, too, if it is of f32
  };
  /// Converts the inputs of a node.
  [[nodiscard]] result_types convert(std::string_view op_type,
                                     std::vector<std::optional<value>>& inputs);
  /// Records the results of the node.
  void record(const result_types& types, results& outputs);
  /// The value as the file has it: f32 if it is narrow.
  [[nodiscard]] value restore(const value& x);

 private:
  /// A value, which stays alive because the key is its address, and its conversion.
  struct conversion {
    value original;
    value converted;
  };
  using conversions = std::unordered_map<const void*, conversion>;
  using input_list = std::vector<value*>;

  /// The inputs whose bits `positions` has and that are f32 in the file.
  [[nodiscard]] input_list inputs_of_f32(std::vector<std::optional<value>>& inputs,
                                         std::uint32_t positions) const;
  [[nodiscard]] bool is_narrow(const value& x) const { return narrow_.contains(x.identity()); }
  /// Converts all of them, unless an element would become infinite. Returns whether it has.
  [[nodiscard]] bool narrow_all(const input_list& list);
  /// Gives all of them one type: the narrow one, if no other value than a constant is of f32 and
  /// the constants have the narrow type. Returns whether they are narrow.
  [[nodiscard]] bool unify(const input_list& list, bool divides);
  void restore_all(const input_list& list);
  [[nodiscard]] value narrowed(const value& x);
  [[nodiscard]] value converted(conversions& known, const value& x, element_type type);

  step_scope& scope_;
  derived_constants& derived_;
  model_precision precision_;
  std::optional<element_type> type_;  // of narrow values
  std::unordered_map<const void*, value> narrow_;
  conversions to_narrow_;
  conversions to_f32_;
};

}  // namespace sluice::models
