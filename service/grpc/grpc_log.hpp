// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::service {

/// Has gRPC write its errors to the log of the service, from now on and in the whole process.
///
/// Strangers cause errors such as failed handshakes. At most one a second is written, so that they
/// cannot fill a disk.
void redirect_grpc_log();

}  // namespace sluice::service
