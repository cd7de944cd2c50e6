// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/host_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

namespace sluice::models {

/// Constants that imports of one model compute from others: converted to another type, with a
/// batch normalisation in them, or side by side. Programs that live at the same time share them,
/// and with them their copies on devices. Thread-safe.
class derived_constants {
 public:
  /// The smallest source that is looked up, in bytes. What depends on a smaller one, or on one that
  /// its owner may write, is computed each time.
  static constexpr std::size_t min_bytes = 4096;

  /// What `make` computes from `source`, or has computed. Nobody writes the elements.
  /// @param derivation states all that the result depends on beside the elements of `source`, its
  /// type and its shape
  /// @param make may return no tensor, which is not kept
  /// @throws error as `make`
  [[nodiscard]] host_tensor find_or_make(const host_tensor& source, const std::string& derivation,
                                         const std::function<host_tensor()>& make) {
    const auto* const only = &source;
    return find_or_make(std::span(&only, 1), derivation, make);
  }
  /// Likewise from several tensors, whose order counts.
  [[nodiscard]] host_tensor find_or_make(std::span<const host_tensor* const> sources,
                                         const std::string& derivation,
                                         const std::function<host_tensor()>& make);
  /// Drops the constants that no program uses.
  void drop_unused() noexcept;

 private:
  /// A tensor of which something has been derived, or that has been derived.
  struct identity {
    std::weak_ptr<const void> memory{};
    std::uint64_t number = 0;
  };
  struct result {
    host_tensor elements{};    ///< none once it has been dropped
    std::uint64_t number = 0;  ///< of all tensors that have been made so
  };
  using results = std::map<std::string, result>;

  [[nodiscard]] host_tensor find(const std::string& key) const;
  [[nodiscard]] std::uint64_t number_of(const host_tensor& tensor);
  void remember(const host_tensor& tensor, std::uint64_t number);

  std::mutex mutex_;
  std::uint64_t last_number_ = 0;
  std::size_t key_bytes_ = 0;
  std::size_t swept_identities_ = 0;  // how many there were after the last sweep
  std::unordered_map<const void*, identity> identities_;
  results results_;
};

}  // namespace sluice::models
