// SPDX-License-Identifier: Apache-2.0
#include "service/front/tenant_registry.hpp"

#include "service/front/protected_file.hpp"

#include <stdexcept>
#include <utility>

namespace sluice::service {

tenant_registry::tenant_registry(std::string file) : file_(std::move(file)) {
  reload();
}

void tenant_registry::reload() {
  if (file_.empty()) return;
  const auto text = read_protected_file(file_, file_readers::everybody);
  std::shared_ptr<const tenant_table> table;
  try {
    table = std::make_shared<const tenant_table>(tenant_table::parse(text));
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(file_ + ": " + e.what());
  }
  const std::scoped_lock lock(mutex_);
  table_ = std::move(table);
}

std::shared_ptr<const tenant_settings> tenant_registry::find(std::string_view tenant) const {
  auto known = table();
  const auto& settings = known->find(tenant);
  return {std::move(known), &settings};
}

std::shared_ptr<const void> tenant_registry::charge(std::string_view tenant,
                                                    std::uint64_t bytes) const {
  const auto settings = find(tenant);
  if (!settings->limits) return nullptr;
  return usage_->charge(tenant, *settings->limits, bytes);
}

std::shared_ptr<const tenant_table> tenant_registry::table() const {
  const std::scoped_lock lock(mutex_);
  return table_;
}

}  // namespace sluice::service
