// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything of layer 1, in one header: devices, streams, memory, references and the launch
/// recorder.
#include <sluice/runtime/arrow.hpp>
#include <sluice/runtime/column.hpp>
#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/device.hpp>
#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/external_memory.hpp>
#include <sluice/runtime/float16.hpp>
#include <sluice/runtime/float8.hpp>
#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/host_transfer.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_adaptor.hpp>
#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_budget.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/memory_log.hpp>
#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/releasable.hpp>
#include <sluice/runtime/report.hpp>
#include <sluice/runtime/source_location.hpp>
#include <sluice/runtime/stream.hpp>
#include <sluice/runtime/stream_pool.hpp>
#include <sluice/runtime/tensor.hpp>
#include <sluice/runtime/timeline_point.hpp>
#include <sluice/version.hpp>
