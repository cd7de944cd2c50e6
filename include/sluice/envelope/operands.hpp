// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
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

/// A reference that a launch uses, with the name that errors give it.
struct operand_argument {
  block_ref block;                         ///< the block that the reference belongs to
  std::size_t offset = 0;                  ///< offset of its first element in the block, in bytes
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
  const auto count = elements.value_or(ref.size());
  const auto limit = std::numeric_limits<std::size_t>::max() / sizeof(T);
  return {.block = ref.block(),
          .offset = ref.offset(),
          .bytes = ref.bytes(),
          .required_bytes = std::min(count, limit) * sizeof(T),
          .access = access,
          .name = name};
}
}  // namespace detail

/// Describes a reference whose first `elements` elements a launch reads, writes, or reads and
/// writes.
///
/// Without `elements` the launch uses all of them. Only a write of a whole block replaces its
/// former contents. `name` must outlive the returned object.
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

/// The owners of a launch: references that keep everything it touches alive until it has completed.
///
/// `access_all` makes them. Not thread-safe.
class operands {
 public:
  /// A reference to one block that the launch touches.
  struct owner {
    block_ref block;                         ///< keeps the memory alive
    access_kind access = access_kind::read;  ///< how the launch uses it
    bool whole = false;                      ///< a write replaces every byte of the block
  };

  operands() = default;
  /// Up to this number, owners need no allocation.
  static constexpr std::size_t inline_owners = 6;

  /// Adds one owner.
  /// @throws std::bad_alloc above `inline_owners`, if there is no memory
  void add(owner o) {
    if (count_ < inline_owners) {
      inline_[count_] = std::move(o);
    } else {
      more_.push_back(std::move(o));
    }
    ++count_;
  }
  /// Keeps an object that is not a block alive, for example a plan, a pointer array or staging
  /// memory.
  ///
  /// The object may be destroyed on any thread that allocates, copies, reaps, completes launches or
  /// ends the runtime. Its destructor must not wait for a lock that such a thread may hold.
  /// @throws std::bad_alloc above two objects, if there is no memory
  operands& keep(std::shared_ptr<const void> object) {
    for (auto& place : objects_) {
      if (place) continue;
      place = std::move(object);
      return *this;
    }
    more_objects_.push_back(std::move(object));
    return *this;
  }

  /// Drops the references to blocks. Objects passed to `keep` stay.
  void release_blocks() noexcept {
    for (std::size_t i = 0; i < std::min(count_, inline_owners); ++i) inline_[i].block = {};
    more_.clear();
    count_ = 0;
  }

  /// The number of owners.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  /// The owner at position `i`, which must be less than `size()`.
  [[nodiscard]] const owner& operator[](std::size_t i) const noexcept {
    return i < inline_owners ? inline_[i] : more_[i - inline_owners];
  }

 private:
  std::size_t count_ = 0;
  std::array<owner, inline_owners> inline_;
  std::vector<owner> more_;
  std::array<std::shared_ptr<const void>, 2> objects_;
  std::vector<std::shared_ptr<const void>> more_objects_;
};

/// Checks one argument of `access_all` against `runtime`. Errors name the argument. Thread-safe.
/// @throws error `invalid_argument` if the reference is empty
/// @throws error `invalid_argument` if the reference belongs to another runtime or device
/// @throws error `invalid_argument` if the reference is smaller than the launch needs
/// @throws error `invalid_argument` if the launch writes read-only memory
/// @throws error `stale_ref` if the memory has been freed
/// @throws error `device_lost` if the device is lost
/// @throws error `shutting_down` if the runtime takes no more work
SLUICE_EXPORT void check_operand(const device_runtime& runtime, const operand_argument& argument);

namespace detail {
/// Checks a block that a launch uses, as `check_operand` does.
void check_block(const device_runtime& runtime, const block_ref& block, access_kind access,
                 std::string_view name);
}  // namespace detail

/// Validates every reference and turns it into an owner. Thread-safe.
///
///     auto used = access_all(runtime, read(a, "a", m * k), read(b, "b", k * n),
///                            write(c, "c", m * n));
///
/// If it throws, nothing is queued and nothing is kept alive. Errors name the argument.
/// @throws error `invalid_argument` if a reference is empty
/// @throws error `invalid_argument` if a reference belongs to another runtime or device
/// @throws error `invalid_argument` if a reference is smaller than the launch needs
/// @throws error `invalid_argument` if the launch writes read-only memory
/// @throws error `stale_ref` if the memory has been freed
/// @throws error `device_lost` if the device is lost
/// @throws error `shutting_down` if the runtime takes no more work
/// @throws std::bad_alloc for more than `operands::inline_owners` references, if there is no memory
template <class... Arguments>
[[nodiscard]] operands access_all(const device_runtime& runtime, Arguments&&... arguments) {
  operands uses;
  [[maybe_unused]] const auto add = [&](operand_argument argument) {
    check_operand(runtime, argument);
    // A partial write keeps the other bytes of the block.
    const bool whole =
        argument.bytes == argument.block.bytes() && argument.required_bytes == argument.bytes;
    uses.add({std::move(argument.block), argument.access, whole});
  };
  (add(std::forward<Arguments>(arguments)), ...);
  return uses;
}

}  // namespace sluice
