// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/answer.hpp>
#include <sluice/actors/device.hpp>
#include <sluice/actors/spawn_operations.hpp>
#include <sluice/operations/indexed_operation.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>
