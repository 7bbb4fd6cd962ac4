// SPDX-License-Identifier: BSD-3-Clause
// Order of calls on device fields with other work of their queue, on the guarded device; and that each way to lose it
// is found there.
#include <graticule/halo/axis_sum.hpp>
#include <graticule/halo/plan.hpp>
#include <graticule/partition/cells.hpp>
#include <graticule/repartition/collectives.hpp>
#include <graticule/repartition/node_memory.hpp>
#include <graticule/repartition/plan.hpp>

#include "devices/faulty_device.hpp"
#include "devices/guarded_device.hpp"
#include "environment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

using namespace graticule;
using test::DeviceFault;
using test::FaultyDevice;
using test::GuardedDevice;
using test::Schedule;
using test::Scheduled;
using test::WithVariable;

namespace {

GuardedDevice& device() { return GuardedDevice::instance(); }

/// Values on a device, written and read by work of a queue only: all that a simulation code does with them.
class DeviceField {
 public:
  DeviceField(Box const& box, int on_device = 0) : box_(box), device_(on_device) {
    data_ = static_cast<double*>(device().allocate(std::size_t(box.num_cells()) * sizeof(double), on_device));
  }
  DeviceField(DeviceField const&) = delete;
  DeviceField& operator=(DeviceField const&) = delete;
  ~DeviceField() {
    device().fence_all(device_);
    device().release(data_);
  }

  [[nodiscard]] FieldView view() const {
    auto view = field_view(data_, box_.extents(), box_.ndim());
    view.space = MemorySpace::device;
    return view;
  }
  /// A kernel that writes `value(cell)` to all cells of `part`.
  void produce(DeviceQueue const& queue, Box const& part, std::function<double(Indices const&)> value) const {
    device().launch(queue, [data = data_, box = box_, part, value = std::move(value)] {
      for_each_cell(part, [&](Indices const& cell) { data[offset(box, cell)] = value(cell); });
    });
  }
  /// All values, after the work that is in the queue now.
  [[nodiscard]] std::vector<double> values(DeviceQueue const& queue) const {
    std::vector<double> result(std::size_t(box_.num_cells()));
    device().copy(queue, result.data(), data_, result.size() * sizeof(double));
    device().fence(queue);
    return result;
  }
  void copy_to(DeviceField const& other, DeviceQueue const& queue) const {
    device().copy(queue, other.data_, data_, std::size_t(box_.num_cells()) * sizeof(double));
  }
  [[nodiscard]] Box const& box() const noexcept { return box_; }

 private:
  static Index offset(Box const& box, Indices const& cell) {
    Index at = 0;
    for (int a = 0; a < box.ndim(); ++a) at = at * box.extent(a) + cell[a] - box.lo(a);
    return at;
  }

  Box box_;
  int device_;
  double* data_;
};

constexpr Index num_columns = 6;

double number_of(Indices const& cell, int round) {
  return double(100 * round) + double(cell[0] * num_columns + cell[1]);
}

/// Rows of a sphere whose columns go round, so that halos beyond the edges need cells of all ranks.
struct Exchange {
  explicit Exchange(Comm const& on, Transport transport = Transport::automatic)
      : comm(on),
        layout(ProcessGrid{on.num_ranks(), 1}, Indices{3 * on.num_ranks(), num_columns}),
        plan(on, layout, {{1, 1}, {2, 2}}, Boundary::uniform(2, Edge::periodic)) {
    plan.set_transport(transport);
  }

  void produce(DeviceField const& field, DeviceQueue const& queue, int round) const {
    field.produce(queue, plan.owned(), [round](Indices const& cell) { return number_of(cell, round); });
  }
  /// Cells that do not hold what the owner of their image has produced.
  [[nodiscard]] int num_wrong(DeviceField const& field, DeviceQueue const& queue, int round) const {
    auto const found = field.values(queue);
    int wrong = 0;
    std::size_t i = 0;
    for_each_cell(field.box(), [&](Indices const& cell) {
      auto image = cell;
      for (int a = 0; a < 2; ++a) image[a] = (cell[a] + layout.extent(a)) % layout.extent(a);
      if (found[i++] != number_of(image, round)) ++wrong;
    });
    return wrong;
  }

  Comm comm;
  Layout layout;
  HaloPlan plan;
};

Index sum_of(Comm const& comm, Index number) {
  std::vector<Index> sum{number};
  comm.sum(sum);
  return sum.front();
}

constexpr std::array schedules{Schedule::late, Schedule::at_random, Schedule::soon};
constexpr std::array transports{Transport::automatic, Transport::point_to_point};

TEST(DeviceOrder, exchanges_follow_the_producer_and_precede_the_consumer_in_their_queue) {
  for (auto const schedule : schedules)
    for (auto const transport : transports) {
      Scheduled const scheduled(schedule);
      Exchange const exchange(Comm::world(), transport);
      auto const queue = device().make_queue();
      DeviceField const field(exchange.plan.local());

      for (int round = 1; round <= 3; ++round) {
        exchange.produce(field, queue, round);
        std::array const fields{HaloField{field.view()}};
        exchange.plan.start(std::span<HaloField const>(fields), queue).wait();

        EXPECT_EQ(exchange.num_wrong(field, queue, round), 0);
      }
    }
}

TEST(DeviceOrder, a_call_without_a_queue_has_ended_after_wait) {
  Scheduled const scheduled(Schedule::late);
  for (auto const transport : transports) {
    Exchange const exchange(Comm::world(), transport);
    auto const elsewhere = device().make_queue();
    DeviceField const field(exchange.plan.local());
    exchange.produce(field, elsewhere, 1);
    device().fence(elsewhere);

    exchange.plan.exchange(field.view());

    EXPECT_EQ(exchange.num_wrong(field, elsewhere, 1), 0);
  }
}

TEST(DeviceOrder, calls_without_a_queue_use_that_of_the_scope) {
  Scheduled const scheduled(Schedule::late);
  Exchange const exchange(Comm::world());
  auto const queue = device().make_queue();
  DeviceQueueScope const scope(queue);
  DeviceField const field(exchange.plan.local());

  exchange.produce(field, queue, 2);
  exchange.plan.exchange(field.view());

  EXPECT_EQ(exchange.num_wrong(field, queue, 2), 0);
}

TEST(DeviceOrder, two_calls_in_flight_may_be_in_different_queues) {
  for (auto const schedule : schedules) {
    Scheduled const scheduled(schedule);
    Exchange const exchange(Comm::world());
    std::array const queues{device().make_queue(), device().make_queue()};
    DeviceField const first(exchange.plan.local());
    DeviceField const second(exchange.plan.local());
    for (int repeat = 0; repeat < 2; ++repeat) {
      // The workspaces change their queues.
      auto const& a = queues[std::size_t(repeat)];
      auto const& b = queues[std::size_t(1 - repeat)];
      exchange.produce(first, a, 1 + repeat);
      exchange.produce(second, b, 5 + repeat);
      std::array const first_fields{HaloField{first.view()}};
      std::array const second_fields{HaloField{second.view()}};

      auto one = exchange.plan.start(std::span<HaloField const>(first_fields), a);
      auto two = exchange.plan.start(std::span<HaloField const>(second_fields), b);
      two.wait();
      one.wait();

      EXPECT_EQ(exchange.num_wrong(first, a, 1 + repeat), 0);
      EXPECT_EQ(exchange.num_wrong(second, b, 5 + repeat), 0);
    }
  }
}

/// Adjoint of an exchange of ones: each owned cell counts its images.
void add_images(Exchange const& exchange, DeviceField const& field, DeviceQueue const& queue, int round) {
  field.produce(queue, field.box(), [round](Indices const&) { return double(round); });
  std::array const fields{HaloField{field.view()}};

  exchange.plan.start_adjoint(std::span<HaloField const>(fields), queue).wait();

  // As many as local boxes hold it, with their repetitions. Ghosts are zero.
  auto const found = field.values(queue);
  double const total = std::accumulate(found.begin(), found.end(), 0.0);
  auto const cells = sum_of(exchange.comm, field.box().num_cells());
  EXPECT_EQ(sum_of(exchange.comm, Index(total)), cells * round);
}

/// Fields of one call.
struct FieldsOfCall {
  FieldsOfCall(HaloPlan const& plan, int number, int on_device = 0) {
    for (int f = 0; f < number; ++f) {
      memory.push_back(std::make_unique<DeviceField>(plan.local(), on_device));
      fields.push_back({memory.back()->view()});
    }
  }
  [[nodiscard]] std::span<HaloField const> all() const { return fields; }

  std::vector<std::unique_ptr<DeviceField>> memory;
  std::vector<HaloField> fields;
};

TEST(DeviceOrder, fields_of_a_process_may_lie_on_two_devices) {
  for (auto const schedule : schedules)
    for (auto const transport : transports) {
      Scheduled const scheduled(schedule);
      Exchange const exchange(Comm::world(), transport);
      // Neighbors compute on the same device or on different ones, in turn.
      for (int round = 1; round <= 8; ++round) {
        int const on = (round + (round > 4 ? exchange.comm.rank() : 0)) % 2;
        auto const queue = device().make_queue(on);
        // So many that their tasks do not fit into the arguments of a kernel.
        FieldsOfCall const fields(exchange.plan, 8, on);
        for (auto const& field : fields.memory) exchange.produce(*field, queue, round);

        exchange.plan.start(fields.all(), queue).wait();

        for (auto const& field : fields.memory) EXPECT_EQ(exchange.num_wrong(*field, queue, round), 0);
        add_images(exchange, *fields.memory.front(), queue, round);
      }
    }
}

TEST(DeviceOrder, adjoints_are_added_in_their_queue) {
  for (auto const schedule : schedules) {
    Scheduled const scheduled(schedule);
    Exchange const exchange(Comm::world());
    auto const queue = device().make_queue();
    DeviceField const field(exchange.plan.local());
    for (int round = 1; round <= 2; ++round) add_images(exchange, field, queue, round);
  }
}

TEST(DeviceOrder, repartitions_follow_their_queue) {
  auto const comm = Comm::world();
  Indices const extents{2 * comm.num_ranks() + 1, num_columns * comm.num_ranks() + 2};
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, extents);
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, extents);
  for (auto const schedule : schedules)
    for (auto const transport : transports) {
      Scheduled const scheduled(schedule);
      RepartitionPlan plan(comm, rows, columns);
      plan.set_transport(transport);
      for (int round = 1; round <= 4; ++round) {
        // In the last two, ranks compute on different devices.
        int const on = round > 2 ? (comm.rank() + round) % 2 : 0;
        DeviceField const from(plan.source_box(), on);
        DeviceField const to(plan.target_box(), on);
        auto const queue = device().make_queue(on);
        DeviceQueueScope const scope(queue);
        from.produce(queue, from.box(), [&](Indices const& cell) { return number_of(cell, round); });

        plan.apply(from.view(), to.view());
        auto const there = to.values(queue);
        from.produce(queue, from.box(), [](Indices const&) { return -1.0; });
        plan.apply_inverse(from.view(), to.view());
        auto const back = from.values(queue);

        std::size_t i = 0;
        for_each_cell(to.box(), [&](Indices const& cell) { EXPECT_EQ(there[i++], number_of(cell, round)); });
        i = 0;
        for_each_cell(from.box(), [&](Indices const& cell) { EXPECT_EQ(back[i++], number_of(cell, round)); });
      }
    }
}

/// Sums along rings and sums of copies, whose plans keep memory from call to call.
struct Sums {
  explicit Sums(Comm const& on)
      : comm(on),
        layout(ProcessGrid{1, on.num_ranks()}, Indices{4, 3 * on.num_ranks()}),
        rings(on, layout, 1),
        copies(on, copied) {}

  struct Fields {
    explicit Fields(Sums const& of, Index levels = 1, int on = 0)
        : cells(of.rings.cells(), on),
          rings(of.rings.sums(), on),
          copy(Box::from_extents({levels, of.copied[0], of.copied[1]}), on) {}
    DeviceField cells;
    DeviceField rings;
    DeviceField copy;
  };
  static void produce(Fields const& fields, DeviceQueue const& queue, int round) {
    fields.cells.produce(queue, fields.cells.box(), [=](Indices const& cell) { return double(round + cell[0]); });
    fields.copy.produce(queue, fields.copy.box(), [=](Indices const& cell) { return double(round + cell[2]); });
  }
  static FieldView copy_of(Fields const& fields) {
    auto view = fields.copy.view();
    view.grid_axes = {1, 2};
    return view;
  }

  /// A call on some fields, and its results that are not those of what was produced.
  struct Call {
    char const* name;
    std::function<void(Fields const&)> apply;
    std::function<int(Fields const&, DeviceQueue const&, int round)> num_wrong;
  };
  [[nodiscard]] std::array<Call, 2> calls() const {
    auto const differ = [](std::vector<double> const& found, auto const& expected) {
      int wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        if (found[i] != double(expected(Index(i)))) ++wrong;
      return wrong;
    };
    return {Call{"ring sums", [this](Fields const& f) { rings.apply(f.cells.view(), f.rings.view()); },
                 [this, differ](Fields const& f, DeviceQueue const& queue, int round) {
                   return differ(f.rings.values(queue), [&](Index row) { return layout.extent(1) * (round + row); });
                 }},
            Call{"sums of copies", [this](Fields const& f) { copies.all_sum_reduce(copy_of(f)); },
                 [this, differ](Fields const& f, DeviceQueue const& queue, int round) {
                   return differ(f.copy.values(queue),
                                 [&](Index i) { return comm.num_ranks() * (round + i % copied[1]); });
                 }}};
  }

  Indices copied{5, 1000};
  Comm comm;
  Layout layout;
  AxisSumPlan rings;
  ReplicatedFieldPlan copies;
};

TEST(DeviceOrder, ring_sums_and_sums_of_copies_follow_their_queue) {
  Sums const sums(Comm::world());
  for (auto const schedule : schedules) {
    Scheduled const scheduled(schedule);
    for (int round = 1; round <= 4; ++round) {
      int const on = round > 2 ? (sums.comm.rank() + round) % 2 : 0;
      Sums::Fields const fields(sums, 1, on);
      auto const queue = device().make_queue(on);
      DeviceQueueScope const scope(queue);
      Sums::produce(fields, queue, round);

      for (auto const& call : sums.calls()) call.apply(fields);

      for (auto const& call : sums.calls()) EXPECT_EQ(call.num_wrong(fields, queue, round), 0) << call.name;
    }
  }
}

TEST(DeviceOrder, ring_sums_and_sums_of_copies_without_a_queue_have_ended_after_the_call) {
  Scheduled const scheduled(Schedule::late);
  Sums const sums(Comm::world());
  Sums::Fields const fields(sums);
  auto const elsewhere = device().make_queue();
  Sums::produce(fields, elsewhere, 1);
  device().fence(elsewhere);

  for (auto const& call : sums.calls()) {
    call.apply(fields);

    EXPECT_EQ(call.num_wrong(fields, elsewhere, 1), 0) << call.name;
  }
}

/// The guarded device with a queue that stands still after any of its kernels, and one whose kernels run at once.
class SteppedDevice : public FaultyDevice {
 public:
  SteppedDevice() : FaultyDevice(DeviceFault::none) {}

  void launch(DeviceQueue const& queue, std::function<void()> kernel) override {
    FaultyDevice::launch(queue, std::move(kernel));
    if (queue.instance() == slow.instance()) points_.push_back(device().record(queue));
    if (queue.instance() == fast.instance()) device().fence(queue);
  }
  /// Launched in the slow queue, by the engine.
  [[nodiscard]] Index num_kernels() const { return Index(points_.size()); }
  /// Runs the slow queue up to the end of a kernel.
  void run_to(Index kernel) const { device().wait_for(points_.at(std::size_t(kernel))); }

  DeviceQueue const slow = device().make_queue();
  DeviceQueue const fast = device().make_queue();

 private:
  std::vector<test::QueuePoint> points_;
};

TEST(DeviceOrder, ring_sums_and_sums_of_copies_wait_for_the_last_call_in_another_queue) {
  Scheduled const scheduled(Schedule::late);
  Sums const sums(Comm::world());
  // Calls on other numbers of levels have other workspaces: no wait for one of those orders them.
  Sums::Fields const first(sums, 2);
  Sums::Fields const second(sums, 1);
  for (auto const& call : sums.calls()) {
    // The first call stands still after each of its kernels in turn, with its memory in use.
    Index num_kernels = 2;
    for (Index kernel = 0; kernel < num_kernels; ++kernel) {
      SteppedDevice stepped;
      auto const apply = [&](Sums::Fields const& fields, DeviceQueue const& queue, int round) {
        DeviceQueueScope const scope(queue);
        Sums::produce(fields, queue, round);
        call.apply(fields);
      };
      apply(first, stepped.slow, 1);
      std::array most{stepped.num_kernels()};
      sums.comm.max(most);
      num_kernels = most[0];
      if (stepped.num_kernels() > 0) stepped.run_to(std::min(kernel, stepped.num_kernels() - 1));

      apply(second, stepped.fast, 5);

      EXPECT_EQ(call.num_wrong(second, stepped.fast, 5), 0) << call.name << ", kernel " << kernel;
      EXPECT_EQ(call.num_wrong(first, stepped.slow, 1), 0) << call.name << ", kernel " << kernel;
    }
    EXPECT_GT(num_kernels, 1) << call.name;
  }
}

TEST(DeviceOrder, ring_sums_and_sums_of_copies_survive_their_plan) {
  Scheduled const scheduled(Schedule::late);
  Sums const sums(Comm::world());
  Sums::Fields const fields(sums);
  for (std::size_t i = 0; i < sums.calls().size(); ++i) {
    SteppedDevice stepped;
    {
      DeviceQueueScope const scope(stepped.slow);
      Sums const ending(sums.comm);
      Sums::produce(fields, stepped.slow, 1);
      ending.calls()[i].apply(fields);
      if (stepped.num_kernels() > 0) stepped.run_to(0);
    }

    EXPECT_EQ(sums.calls()[i].num_wrong(fields, stepped.slow, 1), 0) << sums.calls()[i].name;
  }
}

struct Found {
  Index wrong_cells;
  Index host_accesses;
};

/// Two exchanges of one field, the second with `fault` on rank 0; what the first has filled is copied between them.
Found exchange_with(DeviceFault fault, Transport transport, bool mpi_reads = false) {
  Scheduled const scheduled(Schedule::late);
  auto const comm = Comm::world();
  FaultyDevice faulty(fault);
  if (mpi_reads) faulty.let_mpi_in();
  Exchange const exchange(comm, transport);
  EXPECT_EQ(exchange.plan.stats().mpi_reads_device, mpi_reads);
  auto const queue = device().make_queue();
  DeviceField const field(exchange.plan.local());
  DeviceField const copied(exchange.plan.local());
  std::array const fields{HaloField{field.view()}};
  auto const start = [&](int round) {
    exchange.produce(field, queue, round);
    faulty.begin_call();
    return exchange.plan.start(std::span<HaloField const>(fields), queue);
  };
  // All that a call makes once is made, and no work is left.
  for (int const round : {8, 9}) start(round).wait();
  device().fence(queue);
  start(1).wait();
  field.copy_to(copied, queue);
  if (comm.rank() == 0) faulty.begin();
  // The other ranks' messages of the second call are there before rank 0 begins it.
  if (comm.rank() == 0) comm.barrier();
  auto pending = start(2);
  if (comm.rank() != 0) comm.barrier();
  pending.wait();
  // What the other ranks read from rank 0, they read now.
  if (comm.rank() != 0) device().fence(queue);
  // Looking at the values makes up for what was not waited for: no rank does so before all have ended.
  comm.barrier();
  Index const wrong = exchange.num_wrong(field, queue, 2) + exchange.num_wrong(copied, queue, 1);
  device().fence_all(0);
  auto const accesses = Index(device().take_accesses().size());
  comm.barrier();
  return {sum_of(comm, wrong), sum_of(comm, accesses)};
}

TEST(DeviceOrder, nothing_is_wrong_with_an_exchange_without_fault) {
  for (auto const transport : transports) {
    auto const found = exchange_with(DeviceFault::none, transport);

    EXPECT_EQ(found.wrong_cells, 0);
    EXPECT_EQ(found.host_accesses, 0);
  }
}

TEST(DeviceOrder, a_kernel_that_runs_on_the_host_is_found) {
  for (auto const transport : transports)
    EXPECT_GT(exchange_with(DeviceFault::kernels_on_the_host, transport).host_accesses, 0);
}

TEST(DeviceOrder, a_kernel_in_another_queue_is_found) {
  for (auto const transport : transports)
    EXPECT_GT(exchange_with(DeviceFault::kernels_in_own_queue, transport).wrong_cells, 0);
}

TEST(DeviceOrder, unpacking_before_the_message_is_there_is_found) {
  if (Comm::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer that sends a message";
  for (auto const transport : transports)
    EXPECT_GT(exchange_with(DeviceFault::copies_in_own_queue, transport).wrong_cells, 0);
}

TEST(DeviceOrder, sending_before_the_message_is_packed_is_found) {
  if (Comm::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer that it sends to";
  for (auto const transport : transports)
    EXPECT_GT(exchange_with(DeviceFault::sent_before_it_is_packed, transport).wrong_cells, 0);
}

TEST(DeviceOrder, a_buffer_that_is_reused_while_it_is_read_is_found) {
  if (Comm::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer whose message it buffers";

  // Of a peer on the node it is the peer's buffer that is read, before the call ends.
  EXPECT_GT(exchange_with(DeviceFault::buffers_reused_too_early, Transport::point_to_point).wrong_cells, 0);
}

TEST(DeviceOrder, cells_for_peers_of_the_node_stay_on_the_device) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peer";
  Scheduled const scheduled(Schedule::late);
  auto const bytes_of_exchange = [&](bool expected) {
    FaultyDevice counting(DeviceFault::none);
    Exchange const exchange(comm);
    EXPECT_EQ(exchange.plan.stats().peers_read_device, expected);
    auto const queue = device().make_queue();
    DeviceField const field(exchange.plan.local());
    std::array const fields{HaloField{field.view()}};
    for (int round = 1; round <= 8; ++round) {
      if (round == 8) counting.begin();
      exchange.produce(field, queue, round);
      exchange.plan.start(std::span<HaloField const>(fields), queue).wait();
      device().fence(queue);
      comm.barrier();
    }
    auto const bytes = Index(counting.bytes_copied());
    EXPECT_EQ(exchange.num_wrong(field, queue, 8), 0);
    EXPECT_GT(exchange.plan.stats().node_packed.num_messages, 0);
    return sum_of(comm, bytes);
  };

  EXPECT_EQ(bytes_of_exchange(true), 0);
  WithVariable const staged("GRATICULE_GPU_IPC", "0");
  EXPECT_GT(bytes_of_exchange(false), 0);
}

TEST(DeviceOrder, peers_of_the_node_read_fields_of_a_long_move_in_place) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peer";
  Indices const extents{2 * comm.num_ranks() + 1, num_columns * comm.num_ranks() + 2};
  Layout const rows(ProcessGrid{comm.num_ranks(), 1}, extents);
  Layout const columns(ProcessGrid{1, comm.num_ranks()}, extents);
  for (auto const schedule : schedules) {
    Scheduled const scheduled(schedule);
    RepartitionPlan const plan(comm, rows, columns);
    int const on = schedule == Schedule::at_random ? 0 : comm.rank() % 2;
    auto const queue = device().make_queue(on);
    DeviceQueueScope const scope(queue);
    DeviceField const from(plan.source_box(), on);
    DeviceField const to(plan.target_box(), on);
    for (int round = 1; round <= 20; ++round) {
      from.produce(queue, from.box(), [&](Indices const& cell) { return number_of(cell, round); });

      plan.apply(from.view(), to.view());

      // The next values overwrite what peers have read.
      auto const there = to.values(queue);
      std::size_t i = 0;
      for_each_cell(to.box(), [&](Indices const& cell) { ASSERT_EQ(there[i++], number_of(cell, round)); });
    }
    EXPECT_EQ(plan.stats().node_in_place.num_messages, 20 * Index(comm.num_ranks() - 1));
    EXPECT_EQ(plan.stats().point_to_point.num_messages, 0);
  }
}

/// Exchanges, and their adjoints, of fields that lie at `on_host` on odd ranks, on a device on the others.
void exchange_with_the_host(double* on_host, Exchange const& exchange) {
  auto const queue = device().make_queue();
  DeviceField const field(exchange.plan.local());
  auto const& box = field.box();
  auto const num_bytes = std::size_t(box.num_cells()) * sizeof(double);
  bool const is_on_host = exchange.comm.rank() % 2 == 1;
  // One level, so that there is a batch axis.
  Indices const extents{1, box.extent(0), box.extent(1)};
  auto view = field_view(is_on_host ? on_host : static_cast<double*>(field.view().data), extents, 2);
  view.space = is_on_host ? MemorySpace::host : MemorySpace::device;
  for (int round = 1; round <= 3; ++round) {
    exchange.produce(field, queue, round);
    if (is_on_host) std::ranges::copy(field.values(queue), on_host);

    exchange.plan.start(view, queue).wait();

    if (is_on_host) device().copy(queue, field.view().data, on_host, num_bytes);
    EXPECT_EQ(exchange.num_wrong(field, queue, round), 0);

    auto expected = field.values(queue);
    exchange.plan.exchange_adjoint(field_view(expected.data(), extents, 2));
    exchange.plan.start_adjoint(view, queue).wait();

    if (is_on_host) device().copy(queue, field.view().data, on_host, num_bytes);
    EXPECT_EQ(field.values(queue), expected);
  }
}

TEST(DeviceOrder, a_halo_between_fields_of_the_host_and_of_a_device) {
  Scheduled const scheduled(Schedule::late);
  Exchange const exchange(Comm::world());
  std::vector<double> on_host(std::size_t(exchange.plan.local().num_cells()), -1);

  exchange_with_the_host(on_host.data(), exchange);
}

TEST(DeviceOrder, a_halo_between_node_memory_and_a_device) {
  Scheduled const scheduled(Schedule::late);
  Exchange const exchange(Comm::world());
  NodeMemory const on_host(std::size_t(exchange.plan.local().num_cells()) * sizeof(double));

  exchange_with_the_host(on_host.data<double>(), exchange);
}

TEST(DeviceOrder, reading_before_a_peer_has_packed_is_found) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peer";
  Scheduled const scheduled(Schedule::late);
  auto const num_wrong = [&](DeviceFault fault) {
    FaultyDevice faulty(fault);
    Exchange const exchange(comm);
    auto const queue = device().make_queue();
    DeviceField const field(exchange.plan.local());
    std::array const fields{HaloField{field.view()}};
    faulty.begin();
    Index wrong = 0;
    for (int const round : {1, 2, 3, 4}) {
      exchange.produce(field, queue, round);
      exchange.plan.start(std::span<HaloField const>(fields), queue).wait();
      // Nobody but rank 0 waits for anything, so that its peers pack when its queue asks for it.
      if (comm.rank() == 0) wrong += exchange.num_wrong(field, queue, round);
      comm.barrier();
      device().fence(queue);
      comm.barrier();
    }
    return sum_of(comm, wrong);
  };

  EXPECT_EQ(num_wrong(DeviceFault::none), 0);
  EXPECT_GT(num_wrong(DeviceFault::peers_not_waited_for), 0);
}

TEST(DeviceOrder, memory_that_a_peer_gets_back_too_early_is_found) {
  auto const comm = Comm::world();
  if (comm.num_ranks() == 1) GTEST_SKIP() << "one rank has no peer";
  Scheduled const scheduled(Schedule::late);
  auto const num_wrong = [&](DeviceFault fault) {
    FaultyDevice faulty(fault);
    Exchange const exchange(comm);
    auto const queue = device().make_queue();
    DeviceField const field(exchange.plan.local());
    DeviceField const copied(exchange.plan.local());
    std::array const fields{HaloField{field.view()}};
    auto const start = [&](int round) {
      exchange.produce(field, queue, round);
      return exchange.plan.start(std::span<HaloField const>(fields), queue);
    };
    // Each call is packed before any rank looks at the cells of the first, whose place the second takes.
    start(1).wait();
    field.copy_to(copied, queue);
    auto const consumer = comm.rank() == 0;
    if (!consumer) device().fence(queue);
    comm.barrier();
    Index wrong = 0;
    if (!consumer) {
      // Here it is not waited for that the peer has read the place.
      faulty.begin();
      auto second = start(2);
      auto third = start(3);
      faulty.end();
      device().fence(queue);
      comm.barrier();
      comm.barrier();
      second.wait();
      third.wait();
    } else {
      comm.barrier();
      wrong = exchange.num_wrong(copied, queue, 1);
      comm.barrier();
      start(2).wait();
      start(3).wait();
    }
    device().fence_all(0);
    comm.barrier();
    return sum_of(comm, wrong);
  };

  EXPECT_EQ(num_wrong(DeviceFault::none), 0);
  EXPECT_GT(num_wrong(DeviceFault::peers_not_waited_for), 0);
}

TEST(DeviceOrder, an_mpi_that_reads_the_device_is_found_by_a_message_to_a_peer) {
  auto const comm = Comm::world();
  {
    FaultyDevice device_of_mpi(DeviceFault::none);
    device_of_mpi.let_mpi_in();
    EXPECT_TRUE(Exchange(comm, Transport::point_to_point).plan.stats().mpi_reads_device);
  }
  FaultyDevice plain(DeviceFault::none);
  EXPECT_FALSE(Exchange(comm, Transport::point_to_point).plan.stats().mpi_reads_device);
}

TEST(DeviceOrder, messages_of_device_memory_follow_the_queue_too) {
  auto const found = exchange_with(DeviceFault::none, Transport::point_to_point, true);

  EXPECT_EQ(found.wrong_cells, 0);
  EXPECT_EQ(found.host_accesses, 0);
}

TEST(DeviceOrder, faults_are_found_where_mpi_reads_the_device) {
  if (Comm::world().num_ranks() == 1) GTEST_SKIP() << "one rank has no peer that it sends to";
  for (auto const fault : {DeviceFault::kernels_in_own_queue, DeviceFault::sent_before_it_is_packed,
                           DeviceFault::buffers_reused_too_early})
    EXPECT_GT(exchange_with(fault, Transport::point_to_point, true).wrong_cells, 0) << int(fault);
}

/// Before MPI starts: copies that it leaves to the system, from process to process or through sockets, need open pages.
[[maybe_unused]] bool const copies_by_mpi_itself = [] {
  setenv("UCX_TLS", "self,posix", 0);
  setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
  setenv("OMPI_MCA_btl_sm_use_cma", "0", 0);
  return true;
}();

/// Counts what the engine asks of the guarded device.
class CountingDevice : public detail::DeviceRuntime {
 public:
  /// `shares`: peers may read its memory.
  explicit CountingDevice(bool shares) : shares_(shares) { detail::install_device(this); }
  ~CountingDevice() override { detail::install_device(&device()); }

  struct Counts {
    int launches = 0;
    int copies_to_host = 0;
    int copies_to_device = 0;
    int fences = 0;
  };
  [[nodiscard]] Counts take() { return std::exchange(counts_, {}); }

  void* allocate(std::size_t bytes, int of) override { return device().allocate(bytes, of); }
  void release(void* memory) noexcept override { device().release(memory); }
  void* allocate_pinned(std::size_t bytes) override { return device().allocate_pinned(bytes); }
  void release_pinned(void* memory) noexcept override { device().release_pinned(memory); }
  void copy(DeviceQueue const& queue, void* to, void const* from, std::size_t bytes) override {
    ++(device().owns(to) ? counts_.copies_to_device : counts_.copies_to_host);
    device().copy(queue, to, from, bytes);
  }
  void launch(DeviceQueue const& queue, std::function<void()> kernel) override {
    ++counts_.launches;
    device().launch(queue, std::move(kernel));
  }
  void fence(DeviceQueue const& queue) override {
    ++counts_.fences;
    device().fence(queue);
  }
  std::optional<detail::DeviceAddress> address_of(void const* memory) override {
    return shares_ ? device().address_of(memory) : std::nullopt;
  }
  std::byte* map(detail::DeviceAddress const& address, int number) override { return device().map(address, number); }
  std::optional<detail::OwnEvent> make_event(int number) override { return device().make_event(number); }
  void record(DeviceQueue const& queue, detail::OwnEvent const& event) override { device().record(queue, event); }
  bool wait_for(DeviceQueue const& queue, detail::EventAddress const& event) override {
    return device().wait_for(queue, event);
  }
  DeviceQueue queue_of_stream(void* stream, int of) override { return device().queue_of_stream(stream, of); }

 private:
  bool shares_;
  Counts counts_;
};

/// Of a second call on some fields, forward and adjoint.
std::pair<CountingDevice::Counts, CountingDevice::Counts> counts_of_a_call(int num_fields, Transport transport,
                                                                           std::set<int>& peers, bool shares = false) {
  CountingDevice counting(shares);
  Exchange const exchange(Comm::world(), transport);
  auto const queue = device().make_queue();
  FieldsOfCall const fields(exchange.plan, num_fields);
  auto const all = fields.all();
  exchange.plan.start(all, queue).wait();
  exchange.plan.start_adjoint(all, queue).wait();
  device().fence(queue);
  exchange.comm.barrier();
  (void)counting.take();

  exchange.plan.start(all, queue).wait();
  auto const forward = counting.take();
  exchange.plan.start_adjoint(all, queue).wait();
  auto const adjoint = counting.take();
  for (auto const& path : exchange.plan.paths())
    if (path.peer != exchange.comm.rank()) peers.insert(path.peer);
  return {forward, adjoint};
}

TEST(DeviceOrder, a_call_packs_by_one_kernel_and_unpacks_by_one) {
  for (auto const transport : transports) {
    std::set<int> peers;
    auto const [forward, adjoint] = counts_of_a_call(3, transport, peers);

    // One packs, one unpacks and moves cells that stay on this rank.
    EXPECT_LE(forward.launches, peers.empty() ? 1 : 2);
    // Additions that meet in a cell are made by one thread, one after the other.
    EXPECT_LE(adjoint.launches, peers.empty() ? 1 : 2);
    for (auto const& counts : {forward, adjoint}) {
      EXPECT_EQ(counts.copies_to_host, int(peers.size()));
      EXPECT_EQ(counts.copies_to_device, int(peers.size()));
    }
  }
}

TEST(DeviceOrder, a_call_between_ranks_of_a_node_does_not_wait_for_its_queue_and_copies_nothing) {
  std::set<int> peers;
  auto const [forward, adjoint] = counts_of_a_call(3, Transport::automatic, peers, true);

  for (auto const& counts : {forward, adjoint}) {
    EXPECT_EQ(counts.copies_to_host, 0);
    EXPECT_EQ(counts.copies_to_device, 0);
    EXPECT_EQ(counts.fences, 0);
  }
}

TEST(DeviceOrder, a_call_on_fields_elsewhere_does_not_wait_either) {
  CountingDevice counting(true);
  Exchange const exchange(Comm::world());
  auto const queue = device().make_queue();
  auto const call = [&](DeviceField const& field) {
    exchange.plan.start(field.view(), queue).wait();
    exchange.plan.start_adjoint(field.view(), queue).wait();
  };
  DeviceField const first(exchange.plan.local());
  DeviceField const second(exchange.plan.local());
  for (int round = 0; round < 3; ++round) call(first);
  exchange.comm.barrier();
  (void)counting.take();

  call(second);

  auto const counts = counting.take();
  EXPECT_EQ(counts.fences, 0);
  EXPECT_EQ(counts.copies_to_host + counts.copies_to_device, 0);
}

TEST(DeviceOrder, kernels_of_a_call_do_not_become_more_with_fields) {
  for (auto const transport : transports) {
    std::set<int> peers;
    auto const one = counts_of_a_call(1, transport, peers);
    auto const five = counts_of_a_call(5, transport, peers);

    EXPECT_EQ(five.first.launches, one.first.launches);
    EXPECT_EQ(five.second.launches, one.second.launches);
    EXPECT_EQ(five.first.copies_to_host, one.first.copies_to_host);
  }
}

}  // namespace
