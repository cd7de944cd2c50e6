// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice {

/// The base of a resource that wraps another one: it forwards every function to `upstream`.
///
/// A resource derives from it, overrides `name()` and the functions whose behaviour it changes:
///
///     class counted final : public memory_adaptor {
///      public:
///       explicit counted(std::unique_ptr<memory_resource> upstream)
///           : memory_adaptor(std::move(upstream), "counted") {}
///       granted_memory allocate(const allocation_request& request) override {
///         auto granted = upstream().allocate(request);
///         ++granted_;
///         return granted;
///       }
///       std::string_view name() const noexcept override { return "counted"; }
///
///      private:
///       std::atomic<std::uint64_t> granted_{0};
///     };
///
/// A resource that enlarges requests also overrides `footprint`, because reservations rely on it.
/// Thread-safe as far as `upstream` is.
class SLUICE_EXPORT memory_adaptor : public memory_resource {
 public:
  /// Wraps `upstream`. An error names `maker`, the function or class that wraps it.
  /// @throws error `invalid_argument` if `upstream` is null
  memory_adaptor(std::unique_ptr<memory_resource> upstream, std::string_view maker)
      : upstream_(std::move(upstream)) {
    if (!upstream_) {
      throw error(errc::invalid_argument, std::string(maker) + ": upstream must not be null");
    }
  }

  void bind(resource_context& context) override { upstream_->bind(context); }
  granted_memory allocate(const allocation_request& request) override {
    return upstream_->allocate(request);
  }
  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    upstream_->deallocate(memory, stream, unfinished);
  }
  bool keeps(std::size_t bytes) const noexcept override { return upstream_->keeps(bytes); }
  std::size_t trim() noexcept override { return upstream_->trim(); }
  std::size_t release_unused() noexcept override { return upstream_->release_unused(); }
  std::size_t make_room() noexcept override { return upstream_->make_room(); }
  void drop_owners() noexcept override { upstream_->drop_owners(); }
  std::size_t max_obtainable() const noexcept override { return upstream_->max_obtainable(); }
  void close() noexcept override { upstream_->close(); }
  std::size_t footprint(std::size_t bytes) const noexcept override {
    return upstream_->footprint(bytes);
  }
  memory_reservation reserve(std::size_t bytes) override { return upstream_->reserve(bytes); }
  void note_misuse(memory_misuse misuse, const allocation& memory) noexcept override {
    upstream_->note_misuse(misuse, memory);
  }
  bool supports_use_tracking() const noexcept override {
    return upstream_->supports_use_tracking();
  }

 protected:
  /// The wrapped resource.
  [[nodiscard]] memory_resource& upstream() const noexcept { return *upstream_; }
  /// Destroys upstream early, for a destructor whose members upstream still uses.
  void drop_upstream() noexcept { upstream_.reset(); }

 private:
  std::unique_ptr<memory_resource> upstream_;
};

}  // namespace sluice
