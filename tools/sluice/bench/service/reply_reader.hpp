// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::cli {

/// Reads the replies of one connection, piece by piece. Replies are judged, not kept.
class reply_reader {
 public:
  reply_reader() = default;
  reply_reader(const reply_reader&) = delete;
  reply_reader& operator=(const reply_reader&) = delete;
  virtual ~reply_reader() = default;

  /// Takes the next bytes. Returns whether the reply is complete; the next call begins another one.
  /// @throws error `library_failure` if no further reply can be read
  [[nodiscard]] virtual bool take(std::string_view bytes) = 0;
  /// Why the last reply is not what it should be; empty if it is.
  [[nodiscard]] virtual const std::string& problem() const noexcept = 0;
};

/// Reads replies that have the same size.
class sized_reply_reader final : public reply_reader {
 public:
  explicit sized_reply_reader(std::uint64_t size) : size_(size) {}

  [[nodiscard]] bool take(std::string_view bytes) override {
    taken_ += bytes.size();
    if (taken_ < size_) return false;
    problem_ = taken_ == size_ ? "" : "more bytes than a reply has";
    taken_ = 0;
    return true;
  }
  [[nodiscard]] const std::string& problem() const noexcept override { return problem_; }

 private:
  std::uint64_t size_;
  std::uint64_t taken_ = 0;
  std::string problem_{};
};

}  // namespace sluice::cli
