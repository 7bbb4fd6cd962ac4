// SPDX-License-Identifier: BSD-3-Clause
// Gives the target that makes the precompiled header something to compile.
