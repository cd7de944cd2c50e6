// SPDX-License-Identifier: Apache-2.0
#pragma once

// All private headers of the operations that the layers above use. Not installed.

#include "operations/models/model_table.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/value_specs.hpp"
#include "operations/transfer/fixed_elements.hpp"
#include "operations/workspace.hpp"
