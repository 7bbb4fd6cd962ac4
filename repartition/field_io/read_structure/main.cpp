// SPDX-License-Identifier: BSD-3-Clause
// Has files' structures read for a program that a damaged file must not harm: started by the library for the first file
// that it opens, never by users. It forks a process for each file, so that no file meets what another one left behind,
// and ends when the program that started it does: its standard input, a socket of packets, ends then.
//
// A packet is a request (`request_for` in `structure_process.cpp`) with two pipes: one for the answer, which the new
// process sends, and one for a `ReaderEnd`, which comes when that process has ended.
#include "answer.hpp"
#include "hdf5/descriptor.hpp"
#include "limits.hpp"
#include "read/structure_helper.hpp"

#include <hdf5.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace {

using namespace graticule;
using namespace graticule::detail;

struct Packet {
  Request request;
  Descriptor answer;
  Descriptor end;
};

Request parse(std::string_view text) {
  auto const word = [&] {
    auto const end = std::min(text.find('\0'), text.size());
    std::string const found(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return found;
  };
  Request request;
  auto const kind = word();
  request.kind = kind == "checkpoint" ? Structure::checkpoint
                 : kind == "growing"  ? Structure::growing
                                      : Structure::contents;
  request.plugins = word() == "plugins" ? FilterPlugins::allowed : FilterPlugins::refused;
  request.folder = word();
  request.path = word();
  return request;
}

/// Ends the program when the caller has ended.
std::optional<Packet> receive() {
  static std::array<char, 1 << 16> text;
  std::array<int, 2> pipes{-1, -1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof pipes)> control{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  auto const got = ::recvmsg(STDIN_FILENO, &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EINTR || errno == ENOBUFS || errno == ENOMEM)) return {};
  if (got <= 0) ::_exit(EXIT_SUCCESS);
  if (auto const* const head = CMSG_FIRSTHDR(&message);
      head != nullptr && head->cmsg_type == SCM_RIGHTS && head->cmsg_len <= CMSG_LEN(sizeof pipes))
    std::memcpy(pipes.data(), CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
  return Packet{parse({text.data(), std::size_t(got)}), Descriptor(pipes[0]), Descriptor(pipes[1])};
}

class Helper {
 public:
  Helper() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &child, nullptr);
    children_ = Descriptor(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  [[noreturn]] void run() {
    for (;;) {
      std::array<pollfd, 2> waits{pollfd{STDIN_FILENO, POLLIN, 0}, pollfd{children_.get(), POLLIN, 0}};
      if (::poll(waits.data(), waits.size(), -1) < 0) continue;
      if (waits[1].revents != 0) reap();
      if (waits[0].revents == 0) continue;
      if (auto packet = receive()) start(std::move(*packet));
    }
  }

 private:
  void start(Packet packet) {
    pid_t const own = ::getpid();
    pid_t const id = ::fork();
    if (id == 0) become_reader(packet, own);
    if (id > 0)
      ends_.emplace(id, std::move(packet.end));
    else
      tell(packet.end, {.status = 0, .no_process = errno});
  }

  [[noreturn]] static void become_reader(Packet const& packet, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(EXIT_FAILURE);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    // The socket is the helper's alone.
    ::dup2(STDOUT_FILENO, STDIN_FILENO);
    int const pipe = packet.answer.get();
    close_all_but(pipe);
    std::error_code ignored;
    if (!packet.request.folder.empty()) std::filesystem::current_path(packet.request.folder, ignored);
    limit_this_process(structure_limits(packet.request.kind, std::filesystem::file_size(packet.request.path, ignored)));
    answer(packet.request, pipe);
    // HDF5 may hang or crash when it closes a damaged file.
    ::_exit(EXIT_SUCCESS);
  }

  void reap() {
    signalfd_siginfo told{};
    while (::read(children_.get(), &told, sizeof told) > 0) {
    }
    int status = 0;
    for (pid_t id = ::waitpid(-1, &status, WNOHANG); id > 0; id = ::waitpid(-1, &status, WNOHANG))
      if (auto const found = ends_.find(id); found != ends_.end()) {
        tell(found->second, {.status = status, .no_process = 0});
        ends_.erase(found);
      }
  }

  /// The caller has closed the pipe where it does not care.
  static void tell(Descriptor const& pipe, ReaderEnd const& end) {
    if (::write(pipe.get(), &end, sizeof end) < 0) return;
  }

  Descriptor children_;
  std::map<pid_t, Descriptor> ends_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != GRATICULE_RELEASE || std::string_view(argv[2]) != structure_protocol) {
    std::cerr << "graticule-read-structure reads files for programs of Graticule, which start it: do not start it "
                 "yourself. It is of version "
              << GRATICULE_RELEASE << ".\n";
    return 2;
  }
  close_all_but(-1);
  // What a terminal or a batch system sends to all of a job's processes is for the caller, which may go on with its
  // files until it ends.
  for (int const signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) std::signal(signal, SIG_IGN);
  std::error_code ignored;
  std::filesystem::current_path("/", ignored);
  // Done once, for all the processes that are forked.
  if (H5open() < 0) return 2;
  Helper helper;
  std::string_view const greeting = structure_greeting;
  if (::send(STDIN_FILENO, greeting.data(), greeting.size(), MSG_NOSIGNAL) < 0) return 2;
  helper.run();
}
