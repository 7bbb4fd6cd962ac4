// SPDX-License-Identifier: BSD-3-Clause
// The helper process that reads the structure of files: started for the first file, it runs until this process ends.
#pragma once

#include "hdf5/descriptor.hpp"

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>

namespace graticule::detail {

/// What `graticule-read-structure` must know as well: changed with each change of what is sent.
inline constexpr auto structure_protocol = "4";
/// What it sends when it is ready.
inline constexpr auto structure_greeting = "graticule-read-structure is ready";

/// How the process ended that read one file: its wait status, or why there was none. Sent on the second pipe.
struct ReaderEnd {
  std::int32_t status = 0;
  std::int32_t no_process = 0;  ///< `errno` of `fork`; 0 when there was a process
};

/// The process that reads one file.
struct FileReader {
  Descriptor answer;  ///< what it sends, until it ends
  Descriptor end;     ///< a `ReaderEnd` afterwards; nothing when the helper itself was ended
  std::uint64_t helper = 0;
};

/// A pipe, closed on exec.
struct Pipe {
  Descriptor reader;
  Descriptor writer;
  /// @throws `NoProcess`
  Pipe();
};

/// The helper and its life. It is a child of this process, holds none of its files, and ends with it: it reads a socket
/// whose other end is here. It never reads a file itself: a process that it forks does, one for each file, which has
/// the limits, and may crash.
///
/// Safe for threads. A process that was forked from this one starts a helper of its own.
class StructureHelper {
 public:
  StructureHelper() = default;
  StructureHelper(StructureHelper const&) = delete;
  StructureHelper& operator=(StructureHelper const&) = delete;
  ~StructureHelper();

  /// The only one of this process.
  static StructureHelper& only();

  /// Has a file read; starts the helper where there is none.
  /// @param request what the helper is to read, as `structure_process.cpp` puts it
  /// @return nothing when there is no program that starts, after one line on stderr, or when the environment says
  /// `none`
  /// @throws `NoProcess`
  [[nodiscard]] std::optional<FileReader> begin(std::string const& request);

  /// Ends the helper that `reader` came from, unless another one has replaced it.
  void end(FileReader const& reader);

 private:
  [[nodiscard]] bool start(std::string const& chosen);
  [[nodiscard]] bool start_program(std::filesystem::path const& program, bool as_loaded);
  [[nodiscard]] bool greets() const;
  /// @return false when the helper is gone
  [[nodiscard]] bool send(std::string const& request, std::array<int, 2> const& pipes) const;
  void end() noexcept;

  std::mutex mutex_;
  std::string chosen_;  ///< what the environment said when it was started
  std::set<std::filesystem::path> unusable_;
  Descriptor socket_;
  pid_t id_ = -1;
  pid_t owner_ = -1;  ///< the process that started it
  std::uint64_t number_ = 0;
};

}  // namespace graticule::detail
