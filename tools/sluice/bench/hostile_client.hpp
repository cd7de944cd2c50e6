// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/session.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace sluice::cli {

/// A client that keeps `bench_in_flight` requests in flight, a quarter of each kind, from its
/// construction until `stop`:
///
/// * refused: a `gemm` of matrices that do not fit, to the blas actor;
/// * failing: in turn an operation that throws when it is launched, and a `fill` of more memory
/// than
///   any device has, to the device actor;
/// * unplannable: an `fft` whose plan exceeds the limits of an executor, each time another one, to
///   the fft actor;
/// * large: an `add` of 4 MiB, to the elementwise actor.
class hostile_client {
 public:
  /// For each kind of requests, the number of replies of each kind: "ok" or the code of the error.
  using replies = std::map<std::string, std::map<std::string, std::uint64_t>>;

  /// @throws error the error of a reply to a request that makes the operands
  explicit hostile_client(session& current);
  hostile_client(const hostile_client&) = delete;
  hostile_client& operator=(const hostile_client&) = delete;
  ~hostile_client();

  /// Waits for the replies to all requests. Call it at most once.
  [[nodiscard]] replies stop();

 private:
  struct shared;
  session& current_;
  std::shared_ptr<shared> shared_;
  caf::actor client_;
};

}  // namespace sluice::cli
