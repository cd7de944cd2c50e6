// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::test {

/// Whether this process has the primary context of this GPU. Does not create it.
[[nodiscard]] bool has_context(int ordinal);

}  // namespace sluice::test
