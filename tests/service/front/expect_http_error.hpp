// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_error.hpp"

#include <gtest/gtest.h>

namespace sluice::service::test {

/// The status of the http_error that the call throws; 0 if it throws none.
template <class Call>
unsigned refusal(Call call) {
  try {
    call();
  } catch (const http_error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.status();
  }
  return 0;
}

}  // namespace sluice::service::test
