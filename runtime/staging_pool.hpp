#pragma once

#include <sluice/runtime/device.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace sluice::detail {

/// Memory of the process through which a device transfers at full speed. Making pinned memory takes
/// milliseconds, so blocks are kept for the next transfer, up to a limit. Thread-safe: a block
/// comes back on whatever thread drops it.
class staging_pool : public std::enable_shared_from_this<staging_pool> {
 public:
  static constexpr std::size_t most_kept = std::size_t{256} << 20U;  // bytes

  [[nodiscard]] static std::shared_ptr<staging_pool> make(std::shared_ptr<device> d) {
    return std::shared_ptr<staging_pool>(new staging_pool(std::move(d)));
  }
  staging_pool(const staging_pool&) = delete;
  staging_pool& operator=(const staging_pool&) = delete;
  ~staging_pool();

  /// At least `bytes` bytes; they return to the pool with the last copy of the pointer.
  /// @throws error `out_of_memory`, `device_lost`
  [[nodiscard]] std::shared_ptr<std::byte> acquire(std::size_t bytes);

 private:
  explicit staging_pool(std::shared_ptr<device> d) : device_(std::move(d)) {}
  void give_back(std::byte* block, std::size_t bytes) noexcept;

  std::shared_ptr<device> device_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> kept_;  // by size
  std::size_t kept_bytes_ = 0;
};

}  // namespace sluice::detail
