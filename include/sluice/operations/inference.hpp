// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sluice {

/// The work of an operation's `infer`: it asks for the properties of the operands, refuses what the
/// operation cannot compute, and states the results and the way in which each operand is used.
///
///     scale_call infer(const scale& op, inference& inference) {
///       const auto& x = inference.require(op.x);
///       if (x.type != element_type::f32) throw inference.refusal(op.x, "is not of type f32");
///       inference.result(op.y, x.type, x.shape);
///       inference.make_contiguous(op.x, op.y);
///       return {.count = x.size(), .factor = op.factor.to<float>("factor")};
///     }
///
/// Inputs are read and outputs are written as a whole, unless `infer` states otherwise. It states
/// the result of every output that it does not ignore. The functions take members of the operation
/// itself and no copies of them, and outputs where they say so: they throw error `invalid_argument`
/// otherwise. Nothing here touches the device. Not thread-safe.
class SLUICE_EXPORT inference {
 public:
  /// How the launch uses one operand.
  struct use {
    named_operand operand{};                 ///< the operand
    std::optional<tensor_spec> spec{};       ///< its properties; nothing if it is not given
    bool packed = false;                     ///< `spec` describes a packed copy of it
    access_kind access = access_kind::read;  ///< how the launch uses it
    bool ignored = false;                    ///< the launch does not touch it
    bool stated = false;                     ///< an output whose result is stated
    std::uint64_t in_place_of = 0;           ///< bit i: this output may coincide with operand i
    bool written_last = false;  ///< written once everything has been read; may overlap inputs
    std::uint8_t coupled = 0;   ///< bit d: see `couple`, of its dimension d
  };

  inference(const inference&) = delete;
  inference& operator=(const inference&) = delete;

  /// The properties of an operand of the operation. Those of an output that is not given are known
  /// once `result` has stated them.
  /// @throws error `invalid_argument` if the operand is not given
  [[nodiscard]] const tensor_spec& require(const operand& operand) const;
  /// Likewise; nullptr if the operand is not given.
  [[nodiscard]] const tensor_spec* given(const operand& operand) const;
  /// States that the launch does not touch an operand. It need not be given and may be stale. An
  /// output that is ignored and not given is no part of the reply, unless `result` states it.
  void ignore(const operand& operand);
  /// States that the launch reads the previous elements of an output, which is then required.
  /// @throws error `invalid_argument` if the output is not given
  void update(const operand& output);
  /// States that `output` may be the same view of the same memory as `input`: each element of the
  /// result depends on no other element of the input than its own. May be called for several
  /// inputs.
  void allow_in_place(const operand& output, const operand& input);
  /// States that elements of the results depend on elements of an input at other indices along its
  /// dimension `dimension` than their own, or on the index itself: a softmax along it, a sort, a
  /// window. A program whose runs are launched together refuses such a step along the axis that
  /// counts the runs. Need not be stated where the extents of the results tell, as those of a sum
  /// or a product do. `dimension` is less than the rank of the input.
  void couple(const operand& input, std::size_t dimension);
  /// Likewise along all dimensions from `first` on.
  void couple_from(const operand& input, std::size_t first);
  /// States type and shape of an output. An output that is not given becomes a new tensor without
  /// gaps, in row-major order of the dimensions `order` if there are any.
  /// @throws error `invalid_argument` if the output is given with another type or shape, or two of
  /// its indices may stand for the same element
  /// @throws error `invalid_argument` if an extent is negative, or the size in bytes overflows
  const tensor_spec& result(const operand& output, element_type type, const extents& shape,
                            const extents& order = {});
  /// States that the launch uses a packed copy of an operand, which lies in row-major order without
  /// gaps in temporary memory. From here on, the properties of the operand are those of the copy.
  ///
  /// The executor copies an operand that the launch reads before the operation, and one that it
  /// writes after the operation. It does not copy an output that is not given: such an output is
  /// then a new tensor in that order. The second form repeats an input to `shape`, to which its
  /// shape can be broadcast; the copy lies in row-major order of the dimensions `order` if there
  /// are any. References to the properties of the operand stay valid.
  /// @throws error `invalid_argument` if an input is not given, or the size of the copy in bytes
  /// overflows
  ///@{
  const tensor_spec& pack(const operand& operand);
  const tensor_spec& pack(const operand& operand, const extents& shape, const extents& order = {});
  ///@}
  /// Packs each of the operands that is not contiguous. Call it after `result`.
  /// @throws error as `pack`
  template <class... Operands>
  void make_contiguous(const Operands&... operands) {
    const auto pack_one = [&](const operand& operand) {
      if (!require(operand).is_contiguous()) pack(operand);
    };
    (pack_one(operands), ...);
  }
  /// The name of an operand of the operation.
  [[nodiscard]] std::string_view name(const operand& operand) const {
    return use_of(operand).operand.name;
  }
  /// The error `invalid_argument` about an operand, with its name and a text. The parts of the text
  /// are strings, or values that a `to_string` takes.
  ///
  ///     throw inference.refusal(op.b, "has the shape ", b.shape, ", which does not fit ",
  ///     a.shape);
  template <class... Parts>
  [[nodiscard]] error refusal(const operand& operand, const Parts&... parts) const {
    return invalid_argument(name(operand), (std::string() + ... + text_of(parts)));
  }

  /// Checks that the result of every output is stated.
  /// @throws error `invalid_argument` with the name of an output if it is neither ignored nor
  /// stated
  void require_results() const;
  /// All operands with their uses, in the order of the operation's members.
  [[nodiscard]] std::span<const use> uses() const noexcept { return uses_; }

 protected:
  ~inference() = default;
  /// An inference over `operands`, with as many `uses` as its memory.
  inference(std::span<use> uses, std::span<const named_operand> operands) noexcept;
  /// Likewise, with the properties `specs` of the operands instead of their own.
  inference(std::span<use> uses, std::span<const named_operand> operands,
            std::span<const std::optional<tensor_spec>> specs) noexcept;
  /// What `source` has found, for the operands of a copy of its operation.
  inference(std::span<use> uses, const inference& source,
            std::span<const named_operand> operands) noexcept;

 private:
  template <class Part>
  [[nodiscard]] static std::string text_of(const Part& part) {
    if constexpr (std::is_convertible_v<const Part&, std::string_view>) {
      return std::string(std::string_view(part));
    } else {
      using std::to_string;
      return std::string(to_string(part));
    }
  }
  [[nodiscard]] use& use_of(const operand& operand);
  [[nodiscard]] use& use_of_output(const operand& operand);
  [[nodiscard]] const use& use_of(const operand& operand) const;

  std::span<use> uses_;
};

/// An inference over the operands of an operation with `Operands` of them.
template <std::size_t Operands>
class inference_of final : private std::array<inference::use, Operands>, public inference {
  static_assert(Operands <= max_operands);

 public:
  /// An inference over `operands`, which must outlive it.
  explicit inference_of(const std::array<named_operand, Operands>& operands) noexcept
      : inference(static_cast<std::array<use, Operands>&>(*this), operands) {}
  /// Likewise, with the properties `specs` of the operands: those of values of a program.
  inference_of(const std::array<named_operand, Operands>& operands,
               std::span<const std::optional<tensor_spec>> specs) noexcept
      : inference(static_cast<std::array<use, Operands>&>(*this), operands, specs) {}
  /// What `source` has found, for the operands of a copy of its operation.
  inference_of(const inference_of& source,
               const std::array<named_operand, Operands>& operands) noexcept
      : inference(static_cast<std::array<use, Operands>&>(*this), source, operands) {}
};

/// An inference over the operands of an operation with a list of them.
template <>
class inference_of<std::dynamic_extent> final : private std::vector<inference::use>,
                                                public inference {
 public:
  /// As those of an operation without a list.
  /// @throws std::bad_alloc if there is no memory
  ///@{
  explicit inference_of(std::span<const named_operand> operands)
      : std::vector<use>(operands.size()),
        inference(static_cast<std::vector<use>&>(*this), operands) {}
  inference_of(std::span<const named_operand> operands,
               std::span<const std::optional<tensor_spec>> specs)
      : std::vector<use>(operands.size()),
        inference(static_cast<std::vector<use>&>(*this), operands, specs) {}
  inference_of(const inference_of& source, std::span<const named_operand> operands)
      : std::vector<use>(operands.size()),
        inference(static_cast<std::vector<use>&>(*this), source, operands) {}
  ///@}
};

/// The inference over the operands of `Operation`.
template <class Operation>
using inference_for =
    inference_of<detail::has_operand_list<Operation>() ? std::dynamic_extent
                                                       : detail::operand_count<Operation>()>;

}  // namespace sluice
