// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/memory_adaptor.hpp>
#include <sluice/runtime/memory_adaptors.hpp>

#include <algorithm>

namespace sluice {
namespace {

void add(memory_counter& counter, std::size_t amount) noexcept {
  counter.current += amount;
  counter.peak = std::max(counter.peak, counter.current);
  counter.total += amount;
}

void add(memory_change& change, std::size_t amount) noexcept {
  change.current += static_cast<std::ptrdiff_t>(amount);
  if (change.current > 0) {
    change.peak = std::max(change.peak, static_cast<std::size_t>(change.current));
  }
  change.total += amount;
}

void take(memory_change& change, std::size_t amount) noexcept {
  change.current -= static_cast<std::ptrdiff_t>(amount);
}

class statistics_resource final : public memory_adaptor {
 public:
  statistics_resource(std::unique_ptr<memory_resource> upstream,
                      std::shared_ptr<memory_statistics> statistics)
      : memory_adaptor(std::move(upstream), "make_statistics_resource"),
        statistics_(std::move(statistics)) {
    if (!statistics_) {
      throw error(errc::invalid_argument, "make_statistics_resource: statistics must not be null");
    }
  }

  granted_memory allocate(const allocation_request& request) override {
    auto granted = upstream().allocate(request);
    statistics_->count_allocation(granted.memory.bytes);
    return granted;
  }
  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    statistics_->count_free(memory.bytes);
    upstream().deallocate(memory, stream, unfinished);
  }
  std::string_view name() const noexcept override { return "statistics"; }

 private:
  std::shared_ptr<memory_statistics> statistics_;
};

}  // namespace

memory_counters memory_statistics::counters() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

void memory_statistics::count_allocation(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  add(totals_.bytes, bytes);
  add(totals_.allocations, 1);
  for (auto* open : scopes_) {
    add(open->changes_.bytes, bytes);
    add(open->changes_.allocations, 1);
  }
}

void memory_statistics::count_free(std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  totals_.bytes.current -= bytes;
  totals_.allocations.current -= 1;
  for (auto* open : scopes_) {
    take(open->changes_.bytes, bytes);
    take(open->changes_.allocations, 1);
  }
}

memory_statistics::scope::scope(memory_statistics& statistics) : statistics_(statistics) {
  const std::lock_guard lock(statistics_.mutex_);
  statistics_.scopes_.push_back(this);
}

memory_statistics::scope::~scope() {
  const std::lock_guard lock(statistics_.mutex_);
  std::erase(statistics_.scopes_, this);
}

memory_changes memory_statistics::scope::changes() const {
  const std::lock_guard lock(statistics_.mutex_);
  return changes_;
}

std::unique_ptr<memory_resource> make_statistics_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_statistics> statistics) {
  return std::make_unique<statistics_resource>(std::move(upstream), std::move(statistics));
}

}  // namespace sluice
