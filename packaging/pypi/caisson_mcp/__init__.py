# SPDX-License-Identifier: Apache-2.0
"""Starts Caisson, or connects to it from a machine that it does not run on."""
