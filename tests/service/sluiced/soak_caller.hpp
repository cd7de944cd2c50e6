// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/service/grpc/generic_client.hpp"
#include "tests/service/sluiced/soak_tally.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace sluice::service::test {

/// A client of gRPC that sends random requests to the models of `soak_client`, one at a time, and
/// checks each reply. It cancels some of them.
class soak_caller {
 public:
  soak_caller(std::uint16_t port, std::size_t number, std::uint64_t seed, soak_state& state);

  /// Sends requests until the soak is over.
  void run();
  [[nodiscard]] const soak_tally& tally() const noexcept { return tally_; }

 private:
  void send_one();
  void send_small();
  void cancel_one();
  /// @param code  that the call has, besides those of refusals while a worker is replaced
  void judge(const grpc::Status& status, const soak_interval& interval, const std::string& model,
             grpc::StatusCode code);

  std::string name_;
  std::mt19937_64 generator_;
  soak_state& state_;
  soak_tally tally_{};
  generic_client client_;
  std::uint64_t sent_ = 0;
};

}  // namespace sluice::service::test
