// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything of layer 5, in one header: the library actors, the device actor and their requests.
#include <sluice/actors/answer.hpp>
#include <sluice/actors/ask.hpp>
#include <sluice/actors/blas.hpp>
#include <sluice/actors/caf.hpp>
#include <sluice/actors/device.hpp>
#include <sluice/actors/dnn.hpp>
#include <sluice/actors/elementwise.hpp>
#include <sluice/actors/fft.hpp>
#include <sluice/actors/models.hpp>
#include <sluice/actors/operation_actor.hpp>
#include <sluice/actors/program.hpp>
#include <sluice/actors/rng.hpp>
#include <sluice/actors/spawn_operations.hpp>
#include <sluice/actors/spin_for_message.hpp>
