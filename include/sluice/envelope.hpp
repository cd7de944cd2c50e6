// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything of layer 2, in one header: the kernel envelope, completion and tracing.
#include <sluice/envelope/algorithm_policy.hpp>
#include <sluice/envelope/chrome_trace.hpp>
#include <sluice/envelope/completion_engine.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/lane.hpp>
#include <sluice/envelope/nvtx_trace.hpp>
#include <sluice/envelope/operands.hpp>
#include <sluice/envelope/reply_token.hpp>
