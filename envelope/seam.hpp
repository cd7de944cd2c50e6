// SPDX-License-Identifier: Apache-2.0
#pragma once

// All private headers of the envelope that the layers above use. Not installed.

#include "envelope/nvtx_range.hpp"
