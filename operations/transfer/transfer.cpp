// SPDX-License-Identifier: Apache-2.0
#include "operations/core/rows.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/host_transfer.hpp>

#include <string>
#include <utility>

namespace sluice {
namespace {

struct transfer_call {
  std::int64_t count = 0;  ///< number of elements
  [[nodiscard]] launch_facts facts() const noexcept {
    // The transfer itself counts its commands.
    return {.sizes = {count}, .commands = 0};
  }
};

class transfer_launch final : public operation_launch {
 public:
  transfer_launch(std::shared_ptr<host_transfer> moved, bool is_download) noexcept
      : moved_(std::move(moved)), is_download_(is_download) {}
  std::size_t commands() const noexcept override { return moved_->commands(); }
  bool must_finish() const noexcept override { return is_download_; }
  void finish() noexcept override { moved_->finish(); }
  void enqueue(void* address) { moved_->enqueue(address); }

 private:
  std::shared_ptr<host_transfer> moved_;
  bool is_download_;
};

transfer_call infer(const upload& op, inference& inference) {
  if (!op.values) throw invalid_argument("values", "is not given");
  const auto& y = inference.result(op.y, op.values.type(), op.values.shape());
  inference.make_contiguous(op.y);
  return {static_cast<std::int64_t>(y.size())};
}

transfer_call infer(const download& op, inference& inference) {
  const auto& x = inference.require(op.x);
  inference.make_contiguous(op.x);
  if (!op.target) throw invalid_argument("target", "is not given");
  if (*op.target && (op.target->type() != x.type || op.target->shape() != x.shape)) {
    throw invalid_argument("target", "is of type " + std::string(to_string(op.target->type())) +
                                         " and has the shape " + to_string(op.target->shape()) +
                                         ", but x is of type " + std::string(to_string(x.type)) +
                                         " and has the shape " + to_string(x.shape));
  }
  return {static_cast<std::int64_t>(x.size())};
}

std::shared_ptr<operation_launch> begin(lane_libraries& libraries, const upload& op,
                                        const transfer_call&) {
  return std::make_shared<transfer_launch>(
      host_transfer::upload(libraries.stream(), op.values.data(), op.values.bytes()), false);
}
std::shared_ptr<operation_launch> begin(lane_libraries& libraries, const download& op,
                                        const transfer_call&) {
  auto& target = *op.target;
  if (!target) target = host_tensor(op.x.value().type(), op.x.value().shape());
  return std::make_shared<transfer_launch>(
      host_transfer::download(libraries.stream(), target.data(), target.bytes()), true);
}

/// The descriptor of a transfer whose operand on the device is `Device`.
template <class Operation, operand Operation::*Device>
const operation_descriptor& make_descriptor(std::string_view name) {
  static const typed_operation_descriptor<Operation, transfer_call> descriptor(
      {.name = name,
       .infer = [](const Operation& op, inference& inference) { return infer(op, inference); },
       .host = {.library = "host"},
       .cuda = {.library = "CUDA"},
       .begin = [](lane_libraries& libraries, const Operation& op,
                   const transfer_call& call) { return begin(libraries, op, call); },
       .enqueue_on_any =
           [](lane_libraries&, const transfer_call&, const launch_of<Operation>& launch) {
             launch.template own<transfer_launch>().enqueue(launch.template get<void>(Device));
           }});
  return descriptor;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<upload>) {
  return make_descriptor<upload, &upload::y>("upload");
}
const operation_descriptor& descriptor_of(operation_type<download>) {
  return make_descriptor<download, &download::x>("download");
}

}  // namespace sluice
