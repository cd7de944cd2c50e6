// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"
#include "service/front/region_registry.hpp"
#include "service/front/tenant_registry.hpp"
#include "tests/support/temporary_folder.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>

namespace sluice::service::test {

/// A key that no other process and no other call has.
inline std::string unique_key(const std::string& prefix = "/sluice-test-") {
  static std::atomic<unsigned> count{0};
  return prefix + std::to_string(::getpid()) + "-" + std::to_string(++count);
}

/// A shared memory object of a client, which is gone at the end of the test.
class shared_object {
 public:
  explicit shared_object(std::size_t bytes, std::string key = unique_key())
      : key_(std::move(key)),
        file_(::shm_open(key_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    if (!file_) throw std::system_error(errno, std::generic_category(), key_);
    resize(bytes);
  }
  shared_object(const shared_object&) = delete;
  shared_object& operator=(const shared_object&) = delete;
  ~shared_object() { (void)::shm_unlink(key_.c_str()); }

  [[nodiscard]] const std::string& key() const noexcept { return key_; }
  void resize(std::size_t bytes) const {
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) {
      throw std::system_error(errno, std::generic_category(), key_);
    }
  }
  void write(std::size_t offset, std::string_view bytes) const {
    const auto count =
        ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count != static_cast<ssize_t>(bytes.size())) throw std::runtime_error("pwrite");
  }
  [[nodiscard]] std::string read(std::size_t offset, std::size_t bytes) const {
    std::string text(bytes, '\0');
    const auto count = ::pread(file_.get(), text.data(), bytes, static_cast<off_t>(offset));
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return text;
  }
  [[nodiscard]] std::size_t size() const {
    struct stat status {};
    (void)::fstat(file_.get(), &status);
    return static_cast<std::size_t>(status.st_size);
  }

 private:
  std::string key_;
  file_descriptor file_;
};

/// A tenant file. At first anonymous clients and `alice` may use all shared memory of this user.
class tenant_file {
 public:
  tenant_file() { write("[anonymous]\n" + permission() + "[tenant.alice]\n" + permission()); }

  /// The keys that permit shared memory of this user.
  [[nodiscard]] static std::string permission(const std::string& prefix = "/sluice-test-") {
    return "shared_memory_prefix = \"" + prefix +
           "\"\nshared_memory_owner = " + std::to_string(::geteuid()) + "\n";
  }
  void write(const std::string& text) const {
    std::ofstream(path(), std::ios::trunc) << text;
    std::filesystem::permissions(path(), std::filesystem::perms(0644));
  }
  [[nodiscard]] std::string path() const { return folder_ / "tenants.toml"; }
  [[nodiscard]] std::shared_ptr<tenant_registry> registry() const {
    return std::make_shared<tenant_registry>(path());
  }
  [[nodiscard]] std::shared_ptr<region_registry> regions() const {
    return std::make_shared<region_registry>(registry());
  }

 private:
  sluice::test::temporary_folder folder_;
};

}  // namespace sluice::service::test
