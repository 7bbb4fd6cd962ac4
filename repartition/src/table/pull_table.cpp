// SPDX-License-Identifier: BSD-3-Clause
#include "pull_table.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/division.hpp>
#include <graticule/partition/detail/patience.hpp>
#include <graticule/partition/detail/speech.hpp>
#include <graticule/repartition/detail/permutation_map.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <thread>
#include <tuple>
#include <utility>

namespace graticule {

Box source_box(Piece const& piece) {
  int const ndim = piece.box.ndim();
  Box result(Indices::filled(ndim, 0), Indices::filled(ndim, 0));
  for (int a = 0; a < ndim; ++a) {
    auto const& map = piece.maps[std::size_t(a)];
    Index const first = map.slope * piece.box.lo(a) + map.offset;
    Index const last = map.slope * (piece.box.hi(a) - 1) + map.offset;
    result.set(map.source_axis, std::min(first, last), std::max(first, last) + 1);
  }
  return result;
}

Piece restricted(Piece const& piece, Box const& source) {
  Piece result = piece;
  for (int a = 0; a < piece.box.ndim(); ++a) {
    auto const& map = piece.maps[std::size_t(a)];
    Index const lo = source.lo(map.source_axis);
    Index const hi = source.hi(map.source_axis);
    if (hi <= lo || (map.slope == 0 && (map.offset < lo || map.offset >= hi))) {
      result.box.set(a, piece.box.lo(a), piece.box.lo(a));
      continue;
    }
    if (map.slope == 0) continue;
    // Needed coordinates whose images lie in [lo, hi): from the end that comes first, rounded inwards.
    Index const near = (map.slope > 0 ? lo : hi - 1) - map.offset;
    Index const far = (map.slope > 0 ? hi - 1 : lo) - map.offset;
    result.box.set(a, std::max(piece.box.lo(a), detail::ceil_div(near, map.slope)),
                   std::min(piece.box.hi(a), detail::floor_div(far, map.slope) + 1));
  }
  return result;
}

namespace detail {

IndexMap permutation_map(Indices const& permutation) {
  auto seen = Indices::filled(permutation.size(), 0);
  AxisMaps maps{};
  for (int a = 0; a < permutation.size(); ++a) {
    if (permutation[a] < 0 || permutation[a] >= permutation.size() || seen[int(permutation[a])]++)
      throw Error("AxesMismatch",
                  "permutation " + axes_text(permutation, permutation.size()) + " does not contain each axis once");
    maps[std::size_t(a)] = {int(permutation[a]), 1, 0};
  }
  return [maps](Box const& needed) { return std::vector<Piece>{{needed, maps}}; };
}

namespace {

PeerTransfers numbered(int peer, std::vector<Transfer> transfers, int num_kinds) {
  PeerTransfers result{peer, std::move(transfers), {}, {}, std::vector<Index>(std::size_t(num_kinds), 0)};
  for (auto const& transfer : result.transfers) {
    auto& cells = result.num_cells[std::size_t(transfer.kind)];
    result.first_cell.push_back(cells);
    cells += transfer.to.num_cells();
  }
  for (int kind = 0; kind <= num_kinds; ++kind)
    result.first_of_kind.push_back(int(std::count_if(result.transfers.begin(), result.transfers.end(),
                                                     [&](Transfer const& t) { return t.kind < kind; })));
  return result;
}

bool before(Transfer const& a, Transfer const& b) {
  return std::tie(a.kind, a.target, a.to.lo()) < std::tie(b.kind, b.target, b.to.lo());
}

struct Needs {
  std::map<int, std::vector<Transfer>> by_owner;
  std::vector<Filling> fillings;
};

void find_owners(Layout const& source, Piece const& piece, int kind, int target, Needs& needs) {
  if (piece.box.empty()) return;
  if (piece.filled) {
    needs.fillings.push_back({kind, target, piece.fill, piece.box});
    return;
  }
  Box const read = source_box(piece);
  if (!source.global().contains(read))
    throw Error("OutOfRange", "the needed cells " + to_string(piece.box) + " read " + to_string(read) +
                                  " outside the global box " + to_string(source.global()));
  Index num_owned = 0;
  source.for_each_owner(read, [&](int owner, Box const& part) {
    auto const owned = restricted(piece, part);
    // Slopes beyond 1 may step over a whole owned box.
    if (owned.box.empty()) return;
    num_owned += owned.box.num_cells();
    needs.by_owner[owner].push_back(
        {kind, target, piece.odd_folds, piece.negated, piece.maps, owned.box, source_box(owned)});
  });
  if (num_owned != piece.box.num_cells())
    throw Error("OutOfRange", "the needed cells " + to_string(piece.box) + " read " + to_string(read) +
                                  ", where no rank owns the images of " +
                                  std::to_string(piece.box.num_cells() - num_owned) + " of them");
}

Needs find_owners(PullDescription const& description) {
  Needs needs;
  for (int k = 0; k < int(description.kinds.size()); ++k) {
    auto const& kind = description.kinds[std::size_t(k)];
    for (int t = 0; t < int(kind.targets.size()); ++t)
      for (auto const& needed : kind.targets[std::size_t(t)].needed)
        if (!needed.empty())
          for (auto const& piece : kind.map(needed))
            find_owners(kind.owners ? *kind.owners : description.source, piece, k, t, needs);
  }
  for (auto& [owner, transfers] : needs.by_owner) std::stable_sort(transfers.begin(), transfers.end(), before);
  return needs;
}

void write(std::vector<Index>& words, Box const& box) {
  for (int a = 0; a < box.ndim(); ++a) words.insert(words.end(), {box.lo(a), box.hi(a)});
}

std::vector<Index> to_words(std::vector<Transfer> const& transfers) {
  std::vector<Index> words;
  for (auto const& transfer : transfers) {
    words.insert(words.end(), {transfer.kind, transfer.target, transfer.odd_folds ? 1 : 0, transfer.negated ? 1 : 0});
    for (int a = 0; a < transfer.to.ndim(); ++a) {
      auto const& map = transfer.maps[std::size_t(a)];
      words.insert(words.end(), {map.source_axis, map.slope, map.offset});
    }
    write(words, transfer.to);
    write(words, transfer.from);
  }
  return words;
}

std::vector<Transfer> from_words(std::vector<Index> const& words, int ndim) {
  std::vector<Transfer> transfers;
  auto at = words.begin();
  auto const read_box = [&] {
    Box box(Indices::filled(ndim, 0), Indices::filled(ndim, 0));
    for (int a = 0; a < ndim; ++a, at += 2) box.set(a, at[0], at[1]);
    return box;
  };
  while (at != words.end()) {
    Transfer transfer;
    transfer.kind = int(*at++);
    transfer.target = int(*at++);
    transfer.odd_folds = *at++ != 0;
    transfer.negated = *at++ != 0;
    for (int a = 0; a < ndim; ++a, at += 3) transfer.maps[std::size_t(a)] = {int(at[0]), int(at[1]), at[2]};
    transfer.to = read_box();
    transfer.from = read_box();
    transfers.push_back(transfer);
  }
  return transfers;
}

/// Sends each peer its words and returns what came in, by peer. Nobody knows beforehand who sends.
/// Source: the non-blocking consensus of Hoefler, Siebert and Lumsdaine, "Scalable communication protocols for dynamic
/// sparse data exchange", PPoPP 2010.
std::map<int, std::vector<Index>> exchange_sparse(Comm const& comm, std::map<int, std::vector<Index>> outgoing) {
  struct Exchange {
    std::map<int, std::vector<Index>> outgoing;
    std::vector<MPI_Request> sends;
    MPI_Request barrier = MPI_REQUEST_NULL;
  };
  int const tag = comm.next_tag();
  auto exchange = std::make_unique<Exchange>();
  auto& e = *exchange;
  e.outgoing = std::move(outgoing);
  for (auto const& [peer, words] : e.outgoing) {
    if (words.size() > std::size_t(std::numeric_limits<int>::max()))
      throw Error("OutOfRange", "the plan needs a message of " + std::to_string(words.size()) + " words to rank " +
                                    std::to_string(peer) + ", more than MPI counts");
    check_mpi(
        MPI_Issend(words.data(), int(words.size()), MPI_INT64_T, peer, tag, comm.handle(), &e.sends.emplace_back()),
        "MPI_Issend");
  }
  std::map<int, std::vector<Index>> incoming;
  bool in_barrier = false;
  int done = 0;
  std::function<std::string()> const describe = [&comm] {
    return "rank " + std::to_string(comm.rank()) + " waits for the other ranks to make the same plan";
  };
  Patience patience(comm, describe);
  try {
    while (!done) {
      int found = 0;
      MPI_Status status;
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm.handle(), &found, &status), "MPI_Iprobe");
      if (found) {
        int count = 0;
        check_mpi(MPI_Get_count(&status, MPI_INT64_T, &count), "MPI_Get_count");
        auto& words = incoming[status.MPI_SOURCE];
        words.resize(std::size_t(count));
        check_mpi(MPI_Recv(words.data(), count, MPI_INT64_T, status.MPI_SOURCE, tag, comm.handle(), MPI_STATUS_IGNORE),
                  "MPI_Recv");
      } else if (in_barrier) {
        check_mpi(MPI_Test(&e.barrier, &done, MPI_STATUS_IGNORE), "MPI_Test");
      } else {
        int sent = 0;
        check_mpi(MPI_Testall(int(e.sends.size()), e.sends.data(), &sent, MPI_STATUSES_IGNORE), "MPI_Testall");
        if (sent) {
          check_mpi(MPI_Ibarrier(comm.handle(), &e.barrier), "MPI_Ibarrier");
          in_barrier = true;
        }
      }
      if (!found && !done) {
        patience.pause();
        std::this_thread::yield();
      }
    }
  } catch (...) {
    keep_for_good(std::move(exchange));
    throw;
  }
  return incoming;
}

}  // namespace

PullTable make_pull_table(Comm const& comm, PullDescription const& description) {
  Needs needs;
  run_agreed(comm, [&] { needs = find_owners(description); });
  auto const num_kinds = int(description.kinds.size());
  PullTable table;
  table.fillings = std::move(needs.fillings);
  std::map<int, std::vector<Index>> outgoing;
  for (auto& [owner, transfers] : needs.by_owner) {
    if (owner == comm.rank()) {
      table.local = std::move(transfers);
      continue;
    }
    outgoing[owner] = to_words(transfers);
    table.receives.push_back(numbered(owner, std::move(transfers), num_kinds));
  }
  for (auto const& [peer, words] : exchange_sparse(comm, std::move(outgoing)))
    table.sends.push_back(numbered(peer, from_words(words, description.source.ndim()), num_kinds));
  return table;
}

}  // namespace detail

}  // namespace graticule
