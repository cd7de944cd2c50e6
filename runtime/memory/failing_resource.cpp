// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/memory_adaptor.hpp>
#include <sluice/runtime/memory_adaptors.hpp>

namespace sluice {
namespace {

class failing_resource final : public memory_adaptor {
 public:
  failing_resource(std::unique_ptr<memory_resource> upstream,
                   std::shared_ptr<fault_countdown> faults)
      : memory_adaptor(std::move(upstream), "make_failing_resource"), faults_(std::move(faults)) {
    if (!faults_) {
      throw error(errc::invalid_argument, "make_failing_resource: faults must not be null");
    }
  }

  granted_memory allocate(const allocation_request& request) override {
    if (faults_->strikes()) {
      throw error(errc::out_of_memory,
                  "scripted failure to allocate " + std::to_string(request.bytes) + " bytes");
    }
    return upstream().allocate(request);
  }
  std::string_view name() const noexcept override { return "failing"; }

 private:
  std::shared_ptr<fault_countdown> faults_;
};

}  // namespace

std::unique_ptr<memory_resource> make_failing_resource(std::unique_ptr<memory_resource> upstream,
                                                       std::shared_ptr<fault_countdown> faults) {
  return std::make_unique<failing_resource>(std::move(upstream), std::move(faults));
}

}  // namespace sluice
