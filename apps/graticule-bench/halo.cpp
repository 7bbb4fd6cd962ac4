// SPDX-License-Identifier: BSD-3-Clause
#include <graticule/halo/plan.hpp>

#include "options.hpp"
#include "timing.hpp"

#include <cstring>
#include <memory>
#include <vector>

namespace graticule::bench {

namespace {

/// What an author writes by hand for rows in a ring of bands: persistent requests, packing by memcpy.
class HandWritten {
 public:
  HandWritten(Comm const& comm, float* field, Index channels, Index rows, Index columns, Index width)
      : comm_(comm),
        field_(field),
        channels_(channels),
        rows_(rows),
        width_(width),
        row_bytes_(std::size_t(columns) * sizeof(float)) {
    auto const bytes = std::size_t(channels * width) * row_bytes_;
    for (auto* buffer : {&to_north_, &to_south_, &from_north_, &from_south_}) buffer->resize(bytes);
    int const north = (comm.rank() + comm.num_ranks() - 1) % comm.num_ranks();
    int const south = (comm.rank() + 1) % comm.num_ranks();
    auto const handle = comm.handle();
    check_mpi(MPI_Recv_init(from_north_.data(), int(bytes), MPI_BYTE, north, 30001, handle, &requests_[0]),
              "MPI_Recv_init");
    check_mpi(MPI_Recv_init(from_south_.data(), int(bytes), MPI_BYTE, south, 30002, handle, &requests_[1]),
              "MPI_Recv_init");
    check_mpi(MPI_Send_init(to_south_.data(), int(bytes), MPI_BYTE, south, 30001, handle, &requests_[2]),
              "MPI_Send_init");
    check_mpi(MPI_Send_init(to_north_.data(), int(bytes), MPI_BYTE, north, 30002, handle, &requests_[3]),
              "MPI_Send_init");
  }
  HandWritten(HandWritten const&) = delete;
  HandWritten& operator=(HandWritten const&) = delete;
  ~HandWritten() {
    for (auto& request : requests_) MPI_Request_free(&request);
  }

  void exchange() {
    check_mpi(MPI_Startall(2, requests_), "MPI_Startall");
    pack(to_south_, rows_);
    pack(to_north_, width_);
    check_mpi(MPI_Startall(2, requests_ + 2), "MPI_Startall");
    check_mpi(MPI_Waitall(4, requests_, MPI_STATUSES_IGNORE), "MPI_Waitall");
    unpack(from_north_, 0);
    unpack(from_south_, rows_ + width_);
  }
  /// The same messages without packing.
  void messages_only() {
    check_mpi(MPI_Startall(4, requests_), "MPI_Startall");
    check_mpi(MPI_Waitall(4, requests_, MPI_STATUSES_IGNORE), "MPI_Waitall");
  }
  /// The same packing without messages.
  void packing_only() {
    pack(to_south_, rows_);
    pack(to_north_, width_);
    unpack(from_north_, 0);
    unpack(from_south_, rows_ + width_);
  }
  /// The same bytes, copied once.
  void copy_only() {
    std::memcpy(from_north_.data(), to_south_.data(), from_north_.size());
    std::memcpy(from_south_.data(), to_north_.data(), from_south_.size());
  }

 private:
  [[nodiscard]] std::byte* row(Index channel, Index row) const {
    return reinterpret_cast<std::byte*>(field_) + std::size_t(channel * (rows_ + 2 * width_) + row) * row_bytes_;
  }
  void pack(std::vector<std::byte>& buffer, Index first_row) const {
    auto const bytes = std::size_t(width_) * row_bytes_;
    for (Index c = 0; c < channels_; ++c) std::memcpy(buffer.data() + std::size_t(c) * bytes, row(c, first_row), bytes);
  }
  void unpack(std::vector<std::byte> const& buffer, Index first_row) const {
    auto const bytes = std::size_t(width_) * row_bytes_;
    for (Index c = 0; c < channels_; ++c) std::memcpy(row(c, first_row), buffer.data() + std::size_t(c) * bytes, bytes);
  }

  Comm comm_;
  float* field_;
  Index channels_;
  Index rows_;
  Index width_;
  std::size_t row_bytes_;
  std::vector<std::byte> to_north_, to_south_, from_north_, from_south_;
  MPI_Request requests_[4]{};
};

void fill_owned(std::vector<float>& field, HaloPlan const& plan, Index channels) {
  auto const extents = plan.local().extents();
  for (Index c = 0; c < channels; ++c)
    for (Index i = 0; i < extents[0]; ++i)
      for (Index j = 0; j < extents[1]; ++j)
        field[std::size_t((c * extents[0] + i) * extents[1] + j)] =
            float((c * 131 + (plan.local().lo(0) + i) * 17 + j) % 8191);
}

}  // namespace

void run_halo(app::Context& context, Options const& options) {
  auto const& comm = context.comm;
  Index const channels = options.num_channels ? options.num_channels : 64;
  Layout const layout(bands(comm), {options.num_rows, options.num_columns});
  std::vector<Width> const rows_only{{options.width, options.width}, {0, 0}};
  std::vector<Width> const all_sides{{options.width, options.width}, {options.width, options.width}};
  HaloPlan const ring(comm, layout, rows_only, Boundary::uniform(2, Edge::periodic));
  HaloPlan const sphere(comm, layout, all_sides, Boundary::sphere(Edge::pole_face));
  std::vector<float> field(std::size_t(channels * ring.local().num_cells()));
  std::vector<float> sphere_field(std::size_t(channels * sphere.local().num_cells()));
  fill_owned(field, ring, channels);
  fill_owned(sphere_field, sphere, channels);
  auto const extents = ring.local().extents();
  auto const sphere_extents = sphere.local().extents();
  auto const view = field_view(field.data(), {channels, extents[0], extents[1]}, 2);
  auto const sphere_view = field_view(sphere_field.data(), {channels, sphere_extents[0], sphere_extents[1]}, 2);
  HandWritten hand(comm, field.data(), channels, ring.owned().extent(0), options.num_columns, options.width);

  hand.exchange();
  auto const by_hand = field;
  ring.exchange(view);
  run_agreed(comm, [&] {
    if (field != by_hand) throw Error(Fault::check, "BenchMismatch", "the plan and the hand-written exchange differ");
  });

  std::string const title = "halo of width " + std::to_string(options.width) + ", " + std::to_string(channels) + " x " +
                            std::to_string(options.num_rows) + " x " + std::to_string(options.num_columns) + " f32, " +
                            std::to_string(comm.num_ranks()) + " ranks";
  context.report.set_partition(layout, {"latitude", "longitude"});
  show(context, title,
       interleave(context,
                  {{"hand-written persistent exchange", [&] { hand.exchange(); }},
                   {"HaloPlan, the same rows", [&] { ring.exchange(view); }},
                   {"memcpy of the same bytes", [&] { hand.copy_only(); }},
                   {"packing by memcpy, no messages", [&] { hand.packing_only(); }},
                   {"contiguous messages, no packing", [&] { hand.messages_only(); }},
                   {"HaloPlan, poles and both axes", [&] { sphere.exchange(sphere_view); }},
                   {"HaloPlan, adjoint of the rows", [&] { ring.exchange_adjoint(view); }}},
                  options.num_repetitions, 5));
  context.report.data()["workspaces"] = ring.num_workspaces();
}

}  // namespace graticule::bench
