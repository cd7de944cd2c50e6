// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

/// One reference that a launch is going to use, with the name that errors give it.
struct operand_argument {
  block_ref block;                         ///< the block that the reference belongs to
  std::size_t offset = 0;                  ///< position of its first element in the block, in bytes
  std::size_t bytes = 0;                   ///< size of the reference, in bytes
  std::size_t required_bytes = 0;          ///< bytes that the launch uses
  access_kind access = access_kind::read;  ///< how the launch uses them
  std::string_view name;                   ///< name of the operand in errors
};

namespace detail {
template <element T>
[[nodiscard]] operand_argument make_operand(const gpu_ref<T>& ref, std::string_view name,
                                            std::optional<std::size_t> elements,
                                            access_kind access) {
  const auto needed = elements.value_or(ref.size());
  const auto most = std::numeric_limits<std::size_t>::max() / sizeof(T);
  return {.block = ref.block(),
          .offset = ref.offset(),
          .bytes = ref.bytes(),
          .required_bytes = std::min(needed, most) * sizeof(T),
          .access = access,
          .name = name};
}
}  // namespace detail

/// The launch reads, writes, or reads and writes the first `elements` elements of `ref`, or all of
/// them. Only a write of all elements of a block replaces what the block held.
///@{
template <element T>
[[nodiscard]] operand_argument read(const gpu_ref<T>& ref, std::string_view name,
                                    std::optional<std::size_t> elements = std::nullopt) {
  return detail::make_operand(ref, name, elements, access_kind::read);
}
template <element T>
[[nodiscard]] operand_argument write(const gpu_ref<T>& ref, std::string_view name,
                                     std::optional<std::size_t> elements = std::nullopt) {
  return detail::make_operand(ref, name, elements, access_kind::write);
}
template <element T>
[[nodiscard]] operand_argument read_write(const gpu_ref<T>& ref, std::string_view name,
                                          std::optional<std::size_t> elements = std::nullopt) {
  return detail::make_operand(ref, name, elements, access_kind::read_write);
}
///@}

/// Everything one launch touches, as owners: references that keep it alive until the launch has
/// completed. Made by `access_all`.
class operands {
 public:
  /// A reference to one block that the launch touches.
  struct owner {
    block_ref block;                         ///< keeps the memory alive
    access_kind access = access_kind::read;  ///< how the launch uses it
    bool whole = false;                      ///< a write replaces every byte of the block
  };

  operands() = default;
  /// Up to this many owners need no heap.
  static constexpr std::size_t inline_owners = 6;

  /// Adds one owner. @throws std::bad_alloc above `inline_owners`
  void add(owner o) {
    if (count_ < inline_owners) {
      inline_[count_] = std::move(o);
    } else {
      more_.push_back(std::move(o));
    }
    ++count_;
  }
  /// Keeps something alive that is no device memory of a request: a plan, pointer arrays, staging
  /// memory. It is destroyed on any thread that allocates, copies, reaps, completes or ends the
  /// runtime: its destructor must not wait for a lock under which somebody does that.
  operands& keep(std::shared_ptr<const void> kept) {
    kept_.push_back(std::move(kept));
    return *this;
  }

  /// Drops the references to blocks; what `keep` was given stays.
  void release_blocks() noexcept {
    for (std::size_t i = 0; i < std::min(count_, inline_owners); ++i) inline_[i].block = {};
    more_.clear();
    count_ = 0;
  }

  /// The number of owners.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// The owner at position `i`, which must be below `size()`.
  [[nodiscard]] const owner& operator[](std::size_t i) const noexcept {
    return i < inline_owners ? inline_[i] : more_[i - inline_owners];
  }

 private:
  std::size_t count_ = 0;
  std::array<owner, inline_owners> inline_;
  std::vector<owner> more_;
  std::vector<std::shared_ptr<const void>> kept_;
};

/// Checks one argument against `runtime`. @throws error as `access_all`
void check_operand(const device_runtime& runtime, const operand_argument& argument);

/// Validates every reference and turns it into an owner:
///
///     auto used = access_all(runtime, read(a, "a", m * k), read(b, "b", k * n), write(c, "c", m *
///     n));
///
/// Nothing is queued and nothing is held when it throws. Any thread.
/// @throws error naming the argument: `invalid_argument` (empty, of another runtime, too small,
/// read-only), `stale_ref`,
///   `device_lost`, `shutting_down`
template <class... Arguments>
[[nodiscard]] operands access_all(const device_runtime& runtime, Arguments&&... arguments) {
  operands used;
  [[maybe_unused]] const auto add = [&](operand_argument argument) {
    check_operand(runtime, argument);
    // A write of part of a block keeps the rest.
    const bool whole =
        argument.bytes == argument.block.bytes() && argument.required_bytes == argument.bytes;
    used.add({std::move(argument.block), argument.access, whole});
  };
  (add(std::forward<Arguments>(arguments)), ...);
  return used;
}

/// Whether two references of one runtime share any bytes, also where imports made two blocks of
/// them. References to memory that has been given back share none.
template <element T, element U>
[[nodiscard]] bool overlap(const gpu_ref<T>& a, const gpu_ref<U>& b) noexcept {
  return detail::share_bytes({a.block(), a.data(), a.bytes()}, {b.block(), b.data(), b.bytes()});
}

}  // namespace sluice
