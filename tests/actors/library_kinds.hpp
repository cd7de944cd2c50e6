// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/actors/session.hpp"

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/reply_token.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace sluice::test {

/// One request with fresh random operands, and what its reply must hold.
struct sample {
  caf::message request;
  std::vector<double> expected;
  double bound = 0;
  gpu_ref<float> output{};             ///< when the request names one
  std::vector<float> output_before{};  ///< its contents
};

struct sample_options {
  bool output_given = false;
  reply_on reply = reply_on::finished;
  result_bits bits = result_bits::any;  ///< `as_if_alone`: the request is in no batch
};

/// A request that must be refused.
struct mistake {
  std::string description;
  caf::message request;
  errc code;
  std::string word;  ///< what the error's text names
};

/// Mistakes, and memory that they name as outputs, which must stay as it is.
struct mistakes {
  std::vector<mistake> all;
  gpu_ref<float> untouched{};
  std::vector<float> contents{};
};

/// A kind of actor that launches on a device, as the conformance suite sees it: requests whose
/// reply is a `gpu_ref<float>` or a tensor of f32.
struct library_kind {
  std::string name;
  std::string operation;  ///< as traces name it
  std::function<caf::actor(session&, std::shared_ptr<kernel_trace>)> start;
  std::function<sample(session&, const sample_options&)> make;
  /// `elsewhere` is a session on another device or runtime.
  std::function<mistakes(session&, session& elsewhere)> make_mistakes;
  bool answers_tensors = false;  ///< the replies are tensors
};

/// blas, dnn, fft, rng, elementwise, and the device actor with two of its operations.
[[nodiscard]] const std::vector<library_kind>& library_kinds();

}  // namespace sluice::test
