# SPDX-License-Identifier: Apache-2.0
"""Checks of a service that speaks the Open Inference Protocol; see tools/oip_conformance."""
