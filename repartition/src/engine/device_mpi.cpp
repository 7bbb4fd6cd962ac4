// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/messages/detail/lanes.hpp>
#include <graticule/partition/detail/environment.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/repartition/detail/device_launch.hpp>
#include <graticule/repartition/detail/device_mpi.hpp>
#include <graticule/repartition/detail/device_runtime.hpp>

#include <Kokkos_Core.hpp>

#if defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace graticule::detail {

namespace {

bool library_claims_support() {
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION >= 40000000
  int supported = 0;
#ifdef KOKKOS_ENABLE_HIP
  int const type = MPIX_GPU_SUPPORT_HIP;
#else
  int const type = MPIX_GPU_SUPPORT_CUDA;
#endif
  return MPIX_GPU_query_support(type, &supported) == MPI_SUCCESS && supported != 0;
#elif defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

bool is_wanted() {
  auto const choice = gpu_mpi_choice();
  // Gradients are summed before a program has started Kokkos, too.
  if (!installed_device() && !Kokkos::is_initialized()) return false;
  if (choice != GpuMpi::automatic) return choice == GpuMpi::tried;
  auto const* const installed = installed_device();
  return installed ? installed->mpi_reads_it() : library_claims_support();
}

struct CopyInts {
  int const* from;
  int* to;
  KOKKOS_INLINE_FUNCTION void operator()(Index i) const { to[i] = from[i]; }
};

/// A message of device memory to another rank and one from it, which may still be under way.
struct ProbeMessage {
  Buffer sent;
  Buffer received;
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

/// Starts both messages and waits for them; false where MPI reports that it cannot.
bool exchange(Comm const& comm, int tag, ProbeMessage& message, int count, int to, int from) {
  auto& [sending, receiving] = message.requests;
  if (MPI_Irecv(message.received.data(), count, MPI_INT, from, tag, comm.handle(), &receiving) != MPI_SUCCESS ||
      MPI_Isend(message.sent.data(), count, MPI_INT, to, tag, comm.handle(), &sending) != MPI_SUCCESS) {
    // The next rank waits for something, and finds that it is not the message.
    (void)MPI_Send(nullptr, 0, MPI_INT, to, tag, comm.handle());
    return false;
  }
  // Not MPI_Sendrecv: of a library that cannot do what it claims (MPICH for CUDA over a UCX without CUDA) neither ends.
  std::function<std::string()> const describe = [&] {
    return "rank " + std::to_string(comm.rank()) + " waits for a message from rank " + std::to_string(from) +
           ", by which MPI shows that it reads device memory, as it claims (GRATICULE_GPU_MPI=0 does without)";
  };
  Patience patience(comm, describe);
  for (int done = 0;;) {
    if (MPI_Testall(2, message.requests.data(), &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) return false;
    if (done) return true;
    patience.pause();
  }
}

/// Sends device memory to the next rank and compares what arrives from the one before. Ranks of one node and of several
/// are reached by different ways of MPI, so that a message to this rank itself would say little.
bool message_arrives(Comm const& comm, int tag) {
  constexpr int count = 65536;
  constexpr std::size_t bytes = count * sizeof(int);
  DeviceQueue const queue;
  auto message = std::make_unique<ProbeMessage>(ProbeMessage{Buffer(bytes, Buffer::Kind::device, device_of(queue)),
                                                             Buffer(bytes, Buffer::Kind::device, device_of(queue))});
  std::vector<int> values(std::size_t(count), 0);
  auto const value = [](int rank, int i) { return i * 7 + rank + 1; };
  for (int i = 0; i < count; ++i) values[std::size_t(i)] = value(comm.rank(), i);
  copy_to_device(queue, message->sent.data(), values.data(), bytes);
  fence(queue);
  int const to = (comm.rank() + 1) % comm.num_ranks();
  int const from = (comm.rank() + comm.num_ranks() - 1) % comm.num_ranks();
  bool arrived = false;
  try {
    arrived = exchange(comm, tag, *message, count, to, from);
  } catch (...) {
    keep_for_good(std::move(message));
    throw;
  }
  if (!arrived) {
    keep_for_good(std::move(message));
    return false;
  }
  copy_to_host(queue, values.data(), message->received.data(), bytes);
  fence(queue);
  for (int i = 0; i < count; ++i)
    if (values[std::size_t(i)] != value(from, i)) return false;
  return true;
}

/// What a rank tells its peers of its memory.
struct OfferedMemory {
  DeviceAddress address;
  EventAddress written;
  Index offered = 0;
};

constexpr int probe_count = 1024;
constexpr std::size_t probe_bytes = probe_count * sizeof(int);

/// Reads what each peer on the node has written, from its memory and after its event; peers use `own` and `written`
/// until all ranks have ended.
bool reads_peers(Comm const& comm, std::function<bool(int)> const& reads, Buffer const& own, Buffer const& read,
                 std::optional<SharedEvent>& written) {
  constexpr int count = probe_count;
  constexpr std::size_t bytes = probe_bytes;
  DeviceQueue const queue;
  std::vector<int> values(std::size_t(count), 0);
  auto const value = [](int rank, int i) { return i * 5 + rank + 3; };
  for (int i = 0; i < count; ++i) values[std::size_t(i)] = value(comm.rank(), i);
  copy_to_device(queue, own.data(), values.data(), bytes);
  OfferedMemory offer;
  auto const address = address_of_device_memory(own.data());
  if (address && written) {
    written->record(queue);
    offer = {*address, written->address(), 1};
  }
  fence(queue);
  std::vector<int> peers;
  for (int rank = 0; rank < comm.num_ranks(); ++rank)
    if (rank != comm.rank() && comm.on_this_node(rank)) peers.push_back(rank);
  messages::Lanes lanes(comm);
  auto const& sent = lanes.keep(offer);
  auto& offers = lanes.keep(std::vector<OfferedMemory>(peers.size()));
  for (std::size_t i = 0; i < peers.size(); ++i) {
    lanes.take(peers[i], &offers[i], Index(sizeof(OfferedMemory)));
    lanes.post(peers[i], &sent, Index(sizeof(OfferedMemory)));
  }
  lanes.wait("for the device memory of the ranks of its node");
  bool right = offer.offered != 0;
  for (std::size_t i = 0; i < peers.size() && right; ++i) {
    int const peer = peers[i];
    auto const& theirs = offers[i];
    if (!reads(peer)) continue;
    auto const* const memory = theirs.offered != 0 ? map_device_memory(theirs.address, device_of(queue)) : nullptr;
    if (!memory) return false;
    right = wait_for_event(queue, theirs.written);
    if (right) {
      auto const* const from = reinterpret_cast<int const*>(memory);
      auto* const to = reinterpret_cast<int*>(read.data());
      launch(queue, "graticule::probe", Index(count), CopyInts{from, to});
      copy_to_host(queue, values.data(), read.data(), bytes);
      fence(queue);
    }
    unmap_device_memory(theirs.address, device_of(queue));
    for (int v = 0; v < count; ++v) right = right && values[std::size_t(v)] == value(peer, v);
  }
  return right;
}

}  // namespace

bool gpu_ipc_is_allowed() { return choice_of_environment("GRATICULE_GPU_IPC", {"auto", "0"}) == 0; }

GpuMpi gpu_mpi_choice() {
  std::array const choices{GpuMpi::automatic, GpuMpi::never, GpuMpi::tried};
  return choices[choice_of_environment("GRATICULE_GPU_MPI", {"auto", "0", "1"})];
}

bool peers_read_device_memory(Comm const& comm, std::function<bool(int)> const& reads) {
  if (!has_device()) return false;
  // Programs sum gradients before they start Kokkos, too.
  std::array<Index, 1> without{0};
  run_agreed(comm, [&] {
    bool const can_try = installed_device() || Kokkos::is_initialized();
    without[0] = gpu_ipc_is_allowed() && can_try ? 0 : 1;
  });
  comm.max(without);
  if (without[0] != 0) return false;
  int const device = device_of({});
  std::optional<SharedEvent> written;
  Buffer own;
  Buffer read;
  try {
    own = Buffer(probe_bytes, Buffer::Kind::device, device);
    read = Buffer(probe_bytes, Buffer::Kind::device, device);
    written = SharedEvent::make(device);
  } catch (std::bad_alloc const&) {
    without[0] = 1;
  }
  comm.max(without);
  if (without[0] != 0) return false;
  without[0] = reads_peers(comm, reads, own, read, written) ? 0 : 1;
  comm.max(without);
  return without[0] == 0;
}

bool mpi_moves_device_memory(Comm const& comm) {
  if (!has_device()) return false;
  int const tag = comm.next_tag();
  std::array<Index, 1> without{0};
  run_agreed(comm, [&] { without[0] = is_wanted() ? 0 : 1; });
  comm.max(without);
  if (without[0] != 0) return false;
  without[0] = message_arrives(comm, tag) ? 0 : 1;
  comm.max(without);
  return without[0] == 0;
}

}  // namespace graticule::detail
