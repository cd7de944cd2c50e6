// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/error_word.hpp>
#include <sluice/runtime/launch_errors.hpp>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sluice::detail {

class error_words;

/// An error word of a launch, and what is needed to read it.
struct launch_errors {
  error_word* word = nullptr;  ///< in pinned memory
  error_words* pool = nullptr;
  std::shared_ptr<const error_names> names{};  ///< nullptr: operands have no names
};

/// The error words of a runtime: pinned memory, allocated in slabs and used again. Thread-safe.
///
/// Each launch that may find an error has one: while it is enqueued it belongs to the launch, then
/// to the slot of its ticket. `timeline::settle` gives it back.
class error_words {
 public:
  explicit error_words(device& owner) noexcept : device_(owner) {}
  error_words(const error_words&) = delete;
  error_words& operator=(const error_words&) = delete;
  /// Words that a lost device may still write stay.
  ~error_words();

  /// Allocates memory for `count` more words that are in use at the same time.
  /// @throws error as `device::allocate_staging`; std::bad_alloc
  void reserve(std::size_t count);
  /// Ends the need of a `reserve`. The memory stays.
  void unreserve(std::size_t count) noexcept;
  /// A word in which nothing has been found.
  /// @throws error as `device::allocate_staging`; std::bad_alloc
  [[nodiscard]] launch_errors& take(std::shared_ptr<const error_names> names);
  /// No work writes the word any more.
  void give_back(launch_errors& unused) noexcept;
  /// Likewise for a launch without a ticket. Does nothing after a loss: its work may go on.
  void give_back_unused(launch_errors& unused) noexcept {
    if (!device_.lost()) give_back(unused);
  }

  /// What the launch has found, whose work has completed and been acquired.
  [[nodiscard]] static std::optional<error> found(const launch_errors& errors) noexcept;
  /// The number of words that there are, for tests.
  [[nodiscard]] std::size_t size() const;
  /// The number of words that no launch has, for tests.
  [[nodiscard]] std::size_t unused() const;

 private:
  static constexpr std::size_t least_words_in_slab = 64;
  struct slab {
    error_word* words = nullptr;
    std::unique_ptr<launch_errors[]> entries{};
  };

  [[nodiscard]] launch_errors* take_free() noexcept;
  void add_slab(std::size_t count);

  device& device_;
  mutable std::mutex mutex_;
  std::vector<slab> slabs_;
  std::vector<launch_errors*> free_;
  std::size_t size_ = 0;
  std::size_t reserved_ = 0;
};

}  // namespace sluice::detail
