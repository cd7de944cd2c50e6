// SPDX-License-Identifier: Apache-2.0
#include "service/arena/shared_memory.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <system_error>
#include <utility>

namespace sluice::service {
namespace {

constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;

[[noreturn]] void fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

shared_memory shared_memory::create(std::uint64_t bytes) {
  file_descriptor descriptor(::memfd_create("sluice-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (descriptor.get() < 0) fail(errno, "memfd_create");
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    fail(EFBIG, "size of the arena");
  }
  if (::ftruncate(descriptor.get(), static_cast<off_t>(bytes)) != 0) fail(errno, "ftruncate");
  if (::fcntl(descriptor.get(), F_ADD_SEALS, size_seals | F_SEAL_SEAL) != 0) {
    fail(errno, "F_ADD_SEALS");
  }
  return shared_memory(std::move(descriptor));
}

shared_memory::shared_memory(file_descriptor descriptor) : descriptor_(std::move(descriptor)) {
  const int seals = ::fcntl(descriptor_.get(), F_GET_SEALS);
  if (seals < 0) fail(errno, "F_GET_SEALS");
  if ((seals & size_seals) != size_seals) fail(EINVAL, "the size of the arena is not sealed");
  struct ::stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) fail(errno, "fstat");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), off_t{0});
  if (address == MAP_FAILED) fail(errno, "mmap");
  bytes_ = {static_cast<std::byte*>(address), size};
}

shared_memory::shared_memory(shared_memory&& other) noexcept
    : descriptor_(std::move(other.descriptor_)), bytes_(std::exchange(other.bytes_, {})) {}

shared_memory::~shared_memory() {
  if (!bytes_.empty()) (void)::munmap(bytes_.data(), bytes_.size());
}

}  // namespace sluice::service
