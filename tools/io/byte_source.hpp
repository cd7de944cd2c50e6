#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::io {

/// Bytes that are read once, from front to back: a file, a pipe or a span. Not thread-safe.
class byte_source {
 public:
  explicit byte_source(std::string name) : name_(std::move(name)) {}
  byte_source(const byte_source&) = delete;
  byte_source& operator=(const byte_source&) = delete;
  virtual ~byte_source() = default;

  /// What errors call this source.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Fills `into` from the front and returns the number of bytes read, which is less than
  /// `into.size()` only at the end of the source. Throws `library_failure` when the system cannot
  /// read.
  [[nodiscard]] virtual std::size_t read(std::span<std::byte> into) = 0;

  /// The number of bytes not read yet; empty when that is not known beforehand, as for a pipe.
  [[nodiscard]] virtual std::optional<std::uint64_t> remaining() const noexcept = 0;

 private:
  std::string name_;
};

/// Up to `count` bytes, fewer only at the end of the source. However large `count` is, no more
/// memory is allocated than twice what the source really holds (and one block of 1 MiB).
[[nodiscard]] std::vector<std::byte> read_up_to(byte_source& source, std::uint64_t count);

/// Reads and drops up to `count` bytes; returns how many there were.
std::uint64_t skip(byte_source& source, std::uint64_t count);

/// A source over `bytes`, which must stay alive and unchanged as long as the source.
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
  /// Opens `path` for reading. Throws `invalid_argument`, naming the path, when it is missing, a
  /// folder or not readable, and `library_failure` when the system cannot open any file.
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
