// SPDX-License-Identifier: BSD-3-Clause
// Also part of the libraries over this one, with a `keep_error` of theirs.
#include "errors.hpp"

#include <new>

namespace graticule::c {

namespace {

constexpr char const* argument_rule = "BadArgument";

thread_local std::string kept;

gr_status status_of(Error const& error) {
  if (error.rule() == argument_rule) return GR_ERROR_ARGUMENT;
  if (dynamic_cast<MpiError const*>(&error) != nullptr) return GR_ERROR_MPI;
  switch (error.fault()) {
    case Fault::program: return GR_ERROR_PROGRAM;
    case Fault::usage: return GR_ERROR_USAGE;
    case Fault::input: return GR_ERROR_INPUT;
    case Fault::check: return GR_ERROR_CHECK;
  }
  return GR_ERROR_OTHER;
}

}  // namespace

Error bad_argument(std::string const& what) { return {argument_rule, words_of_caller(what)}; }

gr_status record(char const* function, std::exception_ptr const& failure) noexcept {
  try {
    std::string const head = std::string(function) + ": ";
    try {
      std::rethrow_exception(failure);
    } catch (Error const& error) {
      return keep_error(status_of(error), error.rule().c_str(), (head + error.what()).c_str());
    } catch (std::bad_alloc const&) {
      return keep_error(GR_ERROR_MEMORY, "OutOfMemory", (head + "memory could not be allocated").c_str());
    } catch (std::exception const& error) {
      return keep_error(GR_ERROR_OTHER, "UnexpectedException", (head + error.what()).c_str());
    } catch (...) {
      return keep_error(GR_ERROR_OTHER, "UnexpectedException", (head + "an exception of unknown type").c_str());
    }
  } catch (...) {
    return keep_error(GR_ERROR_MEMORY, "", nullptr);
  }
}

char const* kept_text(std::string text) {
  kept = std::move(text);
  return kept.c_str();
}

}  // namespace graticule::c
