// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/printable.hpp>
#include <graticule/partition/error.hpp>

#include "channel.hpp"

#include <mpi.h>

#include <array>

namespace graticule {

namespace {

std::string mpi_text(int code, std::string_view call) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  return std::string(call) + " returned " + std::to_string(code) + ": " + std::string(text.data(), std::size_t(length));
}

int mpi_class(int code) {
  int result = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &result);
  return result;
}

thread_local std::weak_ptr<std::string const> last_text;

}  // namespace

std::string detail::last_error_text() {
  auto const text = last_text.lock();
  return text ? *text : std::string();
}

Error::Error(std::string_view rule, std::string_view text, std::source_location where)
    : std::runtime_error(std::string(rule) + ": " + printable(text)),
      rule_(rule),
      text_(printable(text)),
      where_(where),
      whole_text_(std::make_shared<std::string const>(what())) {
  last_text = whole_text_;
}

Error::Error(Fault fault, std::string_view rule, std::string_view text, std::source_location where)
    : Error(rule, text, where) {
  fault_ = fault;
}

MpiError::MpiError(int code, std::string_view call, std::source_location where)
    : Error("MpiError", mpi_text(code, call), where), code_(code), error_class_(mpi_class(code)) {}

void check_mpi(int code, std::string_view call, std::source_location where) {
  if (code != MPI_SUCCESS) throw MpiError(code, call, where);
}

}  // namespace graticule
