// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/service/front/raw_client.hpp"
#include "tests/service/sluiced/soak_tally.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace sluice::service::test {

/// A client of HTTP that sends random requests, one at a time, and checks each reply. Many of the
/// requests are malformed, have a deadline of some microseconds, or end with a hang-up.
///
/// The service has these models: `small` doubles rows of numbers, `busy` triples them, `large`
/// multiplies them by 5, `changing` by the factor of its newest version, and `sum` sums up the rows
/// of a sequence. All hang-ups that may be computed and all deadlines go to `busy`.
class soak_client {
 public:
  /// @param number  of the client, which names its sequence
  soak_client(std::uint16_t port, std::size_t number, std::uint64_t seed, soak_state& state);
  ~soak_client();

  /// Sends requests until the soak is over, and then ends the sequence and the connection.
  void run();
  [[nodiscard]] const soak_tally& tally() const noexcept { return tally_; }

 private:
  /// What a reply with status 200 has; returns whether it is right.
  using check = std::function<bool(const raw_reply&)>;

  void send_one();
  void send_small(const std::string& model);
  void send_numbers(const std::string& model, std::size_t most_rows);
  void send_large();
  void send_to_changing();
  void send_malformed();
  void send_hurried();
  void hang_up_within();
  void hang_up_after();
  void hang_up_in_reply();
  void take_step(bool ends);

  /// Sends a complete request and receives its reply. Counts it.
  /// @param status  of the reply; 503 and 429 are accepted, too, while a worker is replaced
  std::optional<raw_reply> exchange(const std::string& request, const std::string& model,
                                    unsigned status, const check& is_right = {});
  void judge(const raw_reply& reply, const soak_interval& interval, const std::string& model,
             unsigned status, const check& is_right);
  raw_client& connection();
  /// Ends the connection, on which nothing more may come.
  void finish_connection();
  [[nodiscard]] std::vector<float> rows(std::size_t count);
  [[nodiscard]] std::string next_id();

  std::uint16_t port_;
  std::string name_;
  std::mt19937_64 generator_;
  soak_state& state_;
  soak_tally tally_{};
  std::unique_ptr<raw_client> connection_{};
  std::vector<float> pool_{};  ///< of numbers, of which requests take parts
  std::uint64_t sent_ = 0;
  int step_ = 0;  ///< steps of the sequence that have a result; 0: none has begun
  std::array<double, 5> sums_{};
};

}  // namespace sluice::service::test
