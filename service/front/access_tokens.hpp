// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// What a client may do. Each role may do what those before it may.
enum class access_role : std::uint8_t {
  none,
  infer,  ///< use models, and read what there is to know about them
  admin,  ///< load and unload models
};

/// A client that has a token.
struct token_holder {
  std::string name{};
  access_role role = access_role::none;
};

/// The tokens that clients may have, by their SHA-256.
///
/// Each line of a token file is `NAME ROLE SHA256`: a name of letters, digits, '_', '-' and '.',
/// `infer` or `admin`, and 64 hexadecimal digits. A name may have several tokens. The line
/// `anonymous infer -` lets clients without a token use models. Empty lines and lines that begin
/// with # are comments.
class access_tokens {
 public:
  static constexpr std::size_t max_tokens = 1000;

  /// Reads the text of a token file.
  /// @throws std::runtime_error with the number of the line that is malformed
  [[nodiscard]] static access_tokens parse(std::string_view text);

  /// The holder of a token. The time that it takes does not depend on how much of a token is right.
  [[nodiscard]] std::optional<token_holder> find(std::string_view token) const;
  /// The role of a client without a token.
  [[nodiscard]] access_role anonymous_role() const noexcept { return anonymous_role_; }

 private:
  using digest = std::array<unsigned char, 32>;
  struct entry {
    digest sha256{};
    token_holder holder{};
  };

  void add_line(std::string_view line);

  std::vector<entry> entries_{};
  access_role anonymous_role_ = access_role::none;
};

}  // namespace sluice::service
