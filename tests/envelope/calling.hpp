// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"

#include <sluice/envelope/completion_engine.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace sluice::test {

/// Calls `f` with the failure as its reply, and `destroyed` in the destructor.
class calling final : public continuation {
 public:
  using function = std::function<void(std::optional<errc>)>;
  explicit calling(function f, std::function<void()> destroyed = {})
      : function_(std::move(f)), destroyed_(std::move(destroyed)) {}
  ~calling() override {
    if (destroyed_) destroyed_();
  }
  std::shared_ptr<launch_reply> complete(const error*) noexcept override {
    class reply final : public launch_reply {
     public:
      explicit reply(function f) : function_(std::move(f)) {}
      void give(const error* failure) noexcept override {
        function_(failure != nullptr ? std::optional(failure->code()) : std::nullopt);
      }

     private:
      function function_;
    };
    return std::make_unique<reply>(std::move(function_));
  }

 private:
  function function_;
  std::function<void()> destroyed_;
};

inline std::uint64_t take_ticket(stream_ref stream) {
  detail::timeline::of(stream)->reserve();
  return detail::timeline::of(stream)->submit();
}

}  // namespace sluice::test
