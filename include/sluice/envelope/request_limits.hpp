// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice {

/// The most that one request may cost. A request that costs more is answered with `unsupported`
/// before it takes a place in a queue.
///
/// A unit of *work* is one element of an operand that the request reads or writes, or what takes as
/// long: a step of a transform, or 32 products of a sum. It takes about a nanosecond on one core of
/// a processor and about a picosecond on a GPU. A program does the work of all its steps. A value
/// that was broadcast counts with all its elements.
struct request_limits {
  /// The largest work of a request; 0: 2^40 on the host device and 2^50 on a GPU, about a quarter
  /// of an hour. The defaults refuse no request that goes through memory that exists: 2^40 elements
  /// take at least a tebibyte.
  double max_work = 0;
  /// The largest work of making the plan of a request, in nanoseconds of one core; 0: 2^36, about a
  /// minute. A step of a program that needs a plan counts as a millisecond if its operation does
  /// not state more.
  double max_planning_work = 0;
  /// The largest size of the plan of a request in host memory, in bytes; 0: 192 MiB, three quarters
  /// of the memory for plans that an executor keeps.
  std::size_t max_host_bytes_of_plan = 0;
};

}  // namespace sluice
