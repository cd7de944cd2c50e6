// SPDX-License-Identifier: Apache-2.0
#include "service/front/access_tokens.hpp"

#include "service/repository/model_index.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace sluice::service {
namespace {

constexpr std::string_view blanks = " \t\r";

/// Takes the next word off a line; empty at its end.
[[nodiscard]] std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const auto word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  return word;
}

[[nodiscard]] access_role parse_role(std::string_view word) {
  if (word == "infer") return access_role::infer;
  if (word == "admin") return access_role::admin;
  throw std::runtime_error("the role is neither infer nor admin");
}

}  // namespace

void access_tokens::add_line(std::string_view line) {
  const auto name = take_word(line);
  if (name.empty() || name.front() == '#') return;
  if (!is_model_name(name)) {
    throw std::runtime_error("the name has other characters than letters, digits, _, - and .");
  }
  const auto role = parse_role(take_word(line));
  const auto digits = take_word(line);
  if (!take_word(line).empty()) throw std::runtime_error("there are more than three words");
  if (name == "anonymous") {
    if (role != access_role::infer || digits != "-") {
      throw std::runtime_error("anonymous clients can have the role infer and - for a token");
    }
    anonymous_role_ = role;
    return;
  }
  entry added{.holder = {.name = std::string(name), .role = role}};
  bool is_valid = digits.size() == 2 * added.sha256.size();
  for (std::size_t i = 0; is_valid && i < added.sha256.size(); ++i) {
    const auto* const digit = digits.data() + 2 * i;
    const auto [end, failure] = std::from_chars(digit, digit + 2, added.sha256[i], 16);
    is_valid = failure == std::errc{} && end == digit + 2;
  }
  if (!is_valid) throw std::runtime_error("the SHA-256 is not 64 hexadecimal digits");
  for (const auto& each : entries_) {
    if (each.sha256 == added.sha256) throw std::runtime_error("two lines have the same SHA-256");
  }
  if (entries_.size() == max_tokens) throw std::runtime_error("there are more than 1000 tokens");
  entries_.push_back(std::move(added));
}

access_tokens access_tokens::parse(std::string_view text) {
  access_tokens tokens;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    try {
      tokens.add_line(line);
    } catch (const std::runtime_error& e) {
      throw std::runtime_error("line " + std::to_string(number) + ": " + e.what());
    }
  }
  return tokens;
}

std::optional<token_holder> access_tokens::find(std::string_view token) const {
  digest sha256{};
  if (EVP_Digest(token.data(), token.size(), sha256.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("SHA-256 cannot be computed");
  }
  const entry* found = nullptr;
  for (const auto& each : entries_) {
    if (CRYPTO_memcmp(each.sha256.data(), sha256.data(), sha256.size()) == 0) found = &each;
  }
  if (found == nullptr) return std::nullopt;
  return found->holder;
}

}  // namespace sluice::service
