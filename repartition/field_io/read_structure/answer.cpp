// SPDX-License-Identifier: BSD-3-Clause
#include "answer.hpp"

#include <graticule/partition/error.hpp>

#include "checkpoint/contents.hpp"
#include "chunk_check.hpp"
#include "read/catalogue.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

namespace graticule::detail {

namespace {

/// The pipe to the caller.
class Sender {
 public:
  explicit Sender(int pipe) : pipe_(pipe) {}

  void send(Frame kind, std::string_view bytes) const {
    std::uint64_t const length = bytes.size();
    std::string head(1, char(kind));
    head.append(reinterpret_cast<char const*>(&length), sizeof length);
    // The caller wakes up for each write.
    if (kind == Frame::reads) return write(head.append(bytes));
    write(head);
    write(bytes);
  }

 private:
  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      auto const written = ::write(pipe_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) ::_exit(EXIT_FAILURE);  // the caller is gone
      bytes.remove_prefix(std::size_t(written));
    }
  }

  int pipe_;
};

std::string read(Request const& request, Sender const& sender) {
  auto const note = [&](std::string const& what) { sender.send(Frame::reads, what); };
  if (request.kind == Structure::checkpoint) return to_bytes(list_checkpoint(request.path, note));
  ChunkCheck check(std::filesystem::file_size(request.path));
  auto catalogue = list_catalogue(request.path, request.plugins,
                                  {note, [&](hid_t dataset, Variable const& variable) { check(dataset, variable); }});
  if (request.kind == Structure::growing) catalogue.unchanged = check.take_unchanged();
  return to_bytes(catalogue);
}

}  // namespace

void answer(Request const& request, int pipe) {
  Sender const sender(pipe);
  sender.send(Frame::reads, "");
  try {
    sender.send(Frame::answer, read(request, sender));
  } catch (Error const& error) {
    sender.send(Frame::error, error.rule() + "\n" + error.text());
  } catch (std::exception const& error) {
    sender.send(Frame::error, std::string("BrokenFile") + "\n" + request.path.string() + " is damaged (" +
                                  error.what() + "); copy or make it again");
  }
}

}  // namespace graticule::detail
