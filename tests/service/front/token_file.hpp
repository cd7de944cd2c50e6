// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/access_policy.hpp"
#include "tests/support/temporary_folder.hpp"

#include <openssl/evp.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace sluice::service::test {

/// The SHA-256 of a text in hexadecimal digits.
inline std::string sha256_of(const std::string& text) {
  std::array<unsigned char, 32> digest{};
  (void)EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  std::string digits;
  for (const auto byte : digest) {
    std::array<char, 3> two{};
    (void)std::snprintf(two.data(), two.size(), "%02x", static_cast<unsigned>(byte));
    digits += two.data();
  }
  return digits;
}

/// A token file: the token of `alice` is "alice-token", of the role infer; that of `root` is
/// "root-token", of the role admin.
class token_file {
 public:
  token_file() {
    write("alice infer " + sha256_of("alice-token") + "\nroot admin " + sha256_of("root-token") +
          "\n");
  }
  void write(const std::string& text) const {
    std::ofstream(path(), std::ios::trunc) << text;
    std::filesystem::permissions(path(), std::filesystem::perms(0600));
  }
  [[nodiscard]] std::string path() const { return folder_ / "tokens"; }
  [[nodiscard]] std::shared_ptr<access_policy> policy() const {
    return std::make_shared<access_policy>(path());
  }

 private:
  sluice::test::temporary_folder folder_;
};

}  // namespace sluice::service::test
