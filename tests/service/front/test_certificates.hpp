// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

namespace sluice::service::test {

struct openssl_deleter {
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
  void operator()(X509_EXTENSION* extension) const noexcept { X509_EXTENSION_free(extension); }
};

/// A certificate with its key.
class test_certificate {
 public:
  /// @param issuer  null: it signs itself, as an authority
  explicit test_certificate(const std::string& name, const test_certificate* issuer = nullptr)
      : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    X509_set_version(certificate_.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_.get()), ++serial_numbers);
    X509_gmtime_adj(X509_getm_notBefore(certificate_.get()), -3600);
    X509_gmtime_adj(X509_getm_notAfter(certificate_.get()), 3600);
    X509_set_pubkey(certificate_.get(), key_.get());
    auto* const subject = X509_get_subject_name(certificate_.get());
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const auto& signer = issuer == nullptr ? *this : *issuer;
    X509_set_issuer_name(certificate_.get(), X509_get_subject_name(signer.certificate_.get()));
    extend(NID_basic_constraints, issuer == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
    extend(NID_subject_alt_name, "IP:127.0.0.1,DNS:localhost");
    if (X509_sign(certificate_.get(), signer.key_.get(), EVP_sha256()) == 0) {
      throw std::runtime_error("X509_sign");
    }
  }

  [[nodiscard]] X509* certificate() const noexcept { return certificate_.get(); }
  [[nodiscard]] EVP_PKEY* key() const noexcept { return key_.get(); }

  void write_certificate(const std::string& path) const {
    write(path, [this](std::FILE* file) { return PEM_write_X509(file, certificate_.get()); });
  }
  /// @param password  empty: the key is not encrypted
  void write_key(const std::string& path, const std::string& password = "") const {
    write(path, [&](std::FILE* file) {
      return PEM_write_PKCS8PrivateKey(
          file, key_.get(), password.empty() ? nullptr : EVP_aes_256_cbc(), password.data(),
          static_cast<int>(password.size()), nullptr, nullptr);
    });
    std::filesystem::permissions(path, std::filesystem::perms(0600));
  }

 private:
  template <class Write>
  static void write(const std::string& path, Write write) {
    std::FILE* const file = std::fopen(path.c_str(), "w");
    if (file == nullptr) throw std::runtime_error(path);
    const bool is_written = write(file) == 1;
    std::fclose(file);
    if (!is_written) throw std::runtime_error(path);
  }
  void extend(int kind, const char* value) {
    const std::unique_ptr<X509_EXTENSION, openssl_deleter> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, kind, value));
    X509_add_ext(certificate_.get(), extension.get(), -1);
  }

  inline static long serial_numbers = 0;
  std::unique_ptr<EVP_PKEY, openssl_deleter> key_;
  std::unique_ptr<X509, openssl_deleter> certificate_;
};

}  // namespace sluice::service::test
