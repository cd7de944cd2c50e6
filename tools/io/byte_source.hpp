// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::io {

/// A sequence of bytes that is read once, from front to back: a file, a pipe or a span. Not
/// thread-safe.
class byte_source {
 public:
  explicit byte_source(std::string name) : name_(std::move(name)) {}
  byte_source(const byte_source&) = delete;
  byte_source& operator=(const byte_source&) = delete;
  virtual ~byte_source() = default;

  /// The name of this source in errors.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Fills `into` from the front and returns the number of bytes read. The number is less than
  /// `into.size()` only at the end of the source. @throws error `library_failure` if the read fails
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> into) = 0;

  /// The number of bytes not read yet. Empty if it is unknown, as for a pipe.
  [[nodiscard]] virtual std::optional<std::uint64_t> remaining() const noexcept = 0;

 private:
  std::string name_;
};

/// Reads up to `count` bytes, fewer only at the end of the source. For any `count` it allocates at
/// most twice the true size of the source, and a block of 1 MiB.
[[nodiscard]] std::vector<std::byte> read_up_to(byte_source& source, std::uint64_t count);

/// Reads and drops up to `count` bytes. Returns the number of bytes read.
std::uint64_t skip(byte_source& source, std::uint64_t count);

/// A source over `bytes`, which must stay alive and unchanged while the source exists.
class span_source final : public byte_source {
 public:
  span_source(std::span<const std::byte> bytes, std::string name)
      : byte_source(std::move(name)), bytes_(bytes) {}
  [[nodiscard]] std::size_t read(std::span<std::byte> into) override;
  [[nodiscard]] std::optional<std::uint64_t> remaining() const noexcept override {
    return bytes_.size();
  }

 private:
  std::span<const std::byte> bytes_;
};

/// A source over a file, a pipe or a character device.
class file_source final : public byte_source {
 public:
  /// Opens `path` for reading. @throws error `invalid_argument`, naming the path: it is missing, a
  /// folder or not readable; `library_failure`: the process or the system has too many open files
  explicit file_source(const std::filesystem::path& path);
  ~file_source() override;
  [[nodiscard]] std::size_t read(std::span<std::byte> into) override;
  [[nodiscard]] std::optional<std::uint64_t> remaining() const noexcept override;

 private:
  int descriptor_ = -1;
  std::optional<std::uint64_t> size_;
  std::uint64_t position_ = 0;
};

}  // namespace sluice::io
