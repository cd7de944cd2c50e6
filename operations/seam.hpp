// SPDX-License-Identifier: Apache-2.0
#pragma once

// All private headers of the operations that the layer above uses. Not installed.

#include "operations/transfer/fixed_elements.hpp"
#include "operations/workspace.hpp"
