// SPDX-License-Identifier: Apache-2.0
#pragma once

// All private headers of the runtime that the layers above use. Not installed.
//
// libsluice exports the functions of these headers that libsluice_actors calls, without making them
// public. tests/exports lists them.

#include "runtime/base/deadline.hpp"
#include "runtime/core/deferred_destruction.hpp"
#include "runtime/core/error_words_of_lane.hpp"
#include "runtime/core/runtime_core.hpp"
#include "runtime/devices/library_call.hpp"
#include "runtime/devices/open_devices.hpp"
#include "runtime/host/annotations.hpp"
#include "runtime/host/host_threads.hpp"
#include "runtime/memory/room_wait.hpp"
#include "runtime/recording/joint_launches.hpp"
#include "runtime/recording/launch_dependencies.hpp"
#include "runtime/reports/report.hpp"
#include "runtime/reports/slow_wait.hpp"
#include "runtime/sync/one_way_signal.hpp"
#include "runtime/sync/spin_lock.hpp"
#include "runtime/tensors/row_major.hpp"
