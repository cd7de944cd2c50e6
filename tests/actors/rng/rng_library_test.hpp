// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/rng/rng_library.hpp"
#include "tests/actors/library_test.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

namespace sluice::test {

/// What `library` makes of `description`, `room_before` elements into a block. Expects that the
/// elements before and behind it stay as they were.
template <class T>
std::vector<T> generated(device_runtime& runtime, stream_ref stream, actors::rng_library& library,
                         const random_description& description, std::size_t room_before = 0) {
  const std::size_t room_behind = 5;
  T mark;
  std::memset(&mark, 0x5a, sizeof mark);
  const auto block =
      upload(runtime, stream, std::vector<T>(room_before + description.count + room_behind, mark));
  launch_recorder recorder = launch_recorder::strict(stream);
  recorder.write(block.subspan(room_before, description.count));
  recorder.preflight();
  library.generate(description, block.data() + room_before);
  recorder.commit();
  std::vector<T> values = download(block, stream);
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(room_before);
  const auto last = first + static_cast<std::ptrdiff_t>(description.count);
  EXPECT_EQ(std::count(values.begin(), first, mark), static_cast<std::ptrdiff_t>(room_before));
  EXPECT_EQ(std::count(last, values.end(), mark), static_cast<std::ptrdiff_t>(room_behind));
  return {first, last};
}

/// Has the library of the test's device.
class rng_library_test : public library_test<actors::make_rng_library> {
 protected:
  template <class T>
  std::vector<T> make(const random_description& description, std::size_t room_before = 0) {
    return generated<T>(runtime(), stream(), *library_, description, room_before);
  }
};

}  // namespace sluice::test
