// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace graticule {

/// Origin of an error; drivers map it to their exit code.
enum class Fault {
  program,  ///< a failed call or a broken rule at run time
  usage,    ///< an option or argument of the command line
  input,    ///< an input file
  check,    ///< a requested check failed
};

/// A kind of failure, what was found, and the source location of the check. docs/errors.md lists the kinds.
///
/// Example: `Error("BadCuts", "cuts of axis 0 sum to 240, the global box has 241 rows")`.
class Error : public std::runtime_error {
 public:
  Error(std::string_view rule, std::string_view text, std::source_location where = std::source_location::current());
  Error(Fault fault, std::string_view rule, std::string_view text,
        std::source_location where = std::source_location::current());

  /// The kind in CamelCase; stable, so that programs can react to one kind of failure.
  [[nodiscard]] std::string const& rule() const noexcept { return rule_; }
  /// One sentence that states what was found and, where helpful, what to do.
  [[nodiscard]] std::string const& text() const noexcept { return text_; }
  [[nodiscard]] std::source_location const& where() const noexcept { return where_; }
  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_ = Fault::program;
  std::string rule_;
  std::string text_;
  std::source_location where_;
  /// Of all copies; while it exists the error may be the one that unwinds the stack.
  std::shared_ptr<std::string const> whole_text_;
};

/// A failed MPI call: error code, error class and the library's own text.
class MpiError : public Error {
 public:
  MpiError(int code, std::string_view call, std::source_location where = std::source_location::current());

  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] int error_class() const noexcept { return error_class_; }

 private:
  int code_;
  int error_class_;
};

}  // namespace graticule
