// SPDX-License-Identifier: BSD-3-Clause
// Joins networks of hosts that are namespaces: delayed_hub FILE MICROSECONDS PROCESS...
//
// Makes a network device eth0 in the network namespace of each process, then FILE. What one device sends, all others
// get that many microseconds later. Ends when it is killed, and the devices with it.
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_frame = 65536;

struct Frame {
  Clock::time_point due;
  std::size_t from = 0;
  std::vector<char> bytes;
};

[[noreturn]] void fail(std::string const& what) {
  std::fprintf(stderr, "delayed_hub: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

/// A device in the network of a process. The network that a device is made in stays its own.
int make_device(std::string const& process) {
  auto const network = "/proc/" + process + "/ns/net";
  int const name = ::open(network.c_str(), O_RDONLY | O_CLOEXEC);
  if (name < 0 || ::setns(name, CLONE_NEWNET) != 0) fail(network);
  ::close(name);
  int const device = ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strcpy(request.ifr_name, "eth0");
  if (::ioctl(device, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
  return device;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "delayed_hub FILE MICROSECONDS PROCESS...\n");
    return 2;
  }
  auto const delay = std::chrono::microseconds(std::atol(argv[2]));
  std::vector<pollfd> devices;
  for (int i = 3; i < argc; ++i) devices.push_back({make_device(argv[i]), POLLIN, 0});
  std::FILE* const file = std::fopen(argv[1], "w");
  if (file == nullptr) fail(argv[1]);
  std::fclose(file);

  std::deque<Frame> frames;
  std::array<char, longest_frame> bytes{};
  for (;;) {
    timespec wait{};
    if (!frames.empty()) {
      auto const left = std::chrono::duration_cast<std::chrono::nanoseconds>(frames.front().due - Clock::now()).count();
      if (left > 0) wait = {left / 1'000'000'000, left % 1'000'000'000};
    }
    if (::ppoll(devices.data(), devices.size(), frames.empty() ? nullptr : &wait, nullptr) < 0) fail("ppoll");
    auto const now = Clock::now();
    for (std::size_t from = 0; from < devices.size(); ++from) {
      // A device that is not up yet has no frames.
      if ((devices[from].revents & POLLIN) == 0) continue;
      for (ssize_t size = 0; (size = ::read(devices[from].fd, bytes.data(), bytes.size())) > 0;)
        frames.push_back({now + delay, from, {bytes.begin(), bytes.begin() + size}});
    }
    for (; !frames.empty() && frames.front().due <= Clock::now(); frames.pop_front())
      for (std::size_t to = 0; to < devices.size(); ++to)
        // Lost where a device is not up, as by a cable.
        if (to != frames.front().from)
          static_cast<void>(!::write(devices[to].fd, frames.front().bytes.data(), frames.front().bytes.size()));
  }
}
