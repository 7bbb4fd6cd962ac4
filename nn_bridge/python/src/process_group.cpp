// SPDX-License-Identifier: BSD-3-Clause
// The back end `graticule` of torch.distributed: process groups over Graticule's messages.
#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/end.hpp>
#include <graticule/partition/detail/hash.hpp>

#include "group_work.hpp"
#include "module.hpp"

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace graticule::python {

namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Pointer = c10::intrusive_ptr<c10d::Work>;
using Use = Contiguous::Use;
using c10d::OpType;

void require(bool condition, std::string const& text) {
  if (!condition) throw Error("ShapeMismatch", text);
}

/// Each of the tensors that a call takes one of per process.
Tensor const& only(Tensors const& tensors, char const* what) {
  if (tensors.size() != 1)
    throw Error("BadArgument", std::string(what) + " takes one tensor, not " + std::to_string(tensors.size()));
  return tensors.front();
}

/// Parts of a tensor along its first axis, one per rank: begins and lengths in bytes. @param sizes rows; none: equal
std::vector<std::pair<Index, Index>> parts_of(Tensor const& tensor, std::vector<std::int64_t> const& sizes,
                                              int num_ranks, char const* what) {
  Index const rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  auto const row_bytes = rows == 0 ? 0 : Index(tensor.nbytes()) / rows;
  require(sizes.empty() || int(sizes.size()) == num_ranks,
          std::string(what) + ": there must be one size per rank, of " + std::to_string(num_ranks) + ", got " +
              std::to_string(sizes.size()));
  std::vector<std::pair<Index, Index>> parts;
  Index begin = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    Index const length = sizes.empty() ? rows / num_ranks : sizes[std::size_t(rank)];
    require(length >= 0, std::string(what) + ": a size must not be negative, got " + std::to_string(length));
    parts.emplace_back(begin * row_bytes, length * row_bytes);
    begin += length;
  }
  require(begin == rows, std::string(what) + ": " + std::to_string(rows) + " rows are not those of " +
                             std::to_string(num_ranks) + " ranks");
  return parts;
}

/// As many functions as `c10d::Backend` lets a backend override.
class Group final : public c10d::Backend {
 public:
  explicit Group(std::shared_ptr<GroupState> state)
      : Backend(state->comm().rank(), state->comm().num_ranks()), state_(std::move(state)) {}
  Group(Group const&) = delete;
  Group& operator=(Group const&) = delete;
  ~Group() override {
    // Garbage is collected by each rank when it likes, and communicators are freed by all ranks together.
    for (auto const& comm : state_->comms) keep_until_stop(comm);
    state_->close();
  }

  const std::string getBackendName() const override { return "graticule"; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return num_calls_; }
  void setTimeout(std::chrono::milliseconds timeout) override { state_->longest_wait = double(timeout.count()) / 1e3; }
  void shutdown() override { state_->close(); }
  void abort() override { state_->fail(std::make_exception_ptr(Error("WrongState", "the process group was aborted"))); }

  Pointer broadcast(Tensors& tensors, c10d::BroadcastOptions const& options) override {
    return run([&] {
      return c10::make_intrusive<BroadcastWork>(state_, "a broadcast", only(tensors, "broadcast"),
                                                int(options.rootRank));
    });
  }

  Pointer allreduce(Tensors& tensors, c10d::AllreduceOptions const& options) override {
    return sum_of(OpType::ALLREDUCE, "an all-reduce", tensors, options.reduceOp);
  }

  Pointer allreduce_coalesced(Tensors& tensors, c10d::AllreduceCoalescedOptions const& options) override {
    return sum_of(OpType::ALLREDUCE_COALESCED, "an all-reduce", tensors, options.reduceOp);
  }

  /// By an all-reduce of copies: a root's memory does not grow with the number of ranks.
  Pointer reduce(Tensors& tensors, c10d::ReduceOptions const& options) override {
    return run([&] {
      auto const tensor = only(tensors, "reduce");
      auto const copy = detached_copy(tensor);
      auto work = c10::make_intrusive<SumWork>(state_, OpType::REDUCE, "a reduction", Tensors{copy},
                                               options.reduceOp.op_, tensors);
      if (getRank() == options.rootRank) work->at_end([tensor, copy] { tensor.copy_(copy); });
      return work;
    });
  }

  Pointer allgather(std::vector<Tensors>& outputs, Tensors& inputs, c10d::AllgatherOptions const&) override {
    only(inputs, "all_gather");
    return allgather_coalesced_of(OpType::ALLGATHER, outputs, inputs);
  }

  Pointer allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs, c10d::AllgatherOptions const&) override {
    // Here the lists are by rank.
    std::vector<Tensors> by_input(inputs.size());
    for (auto const& of_rank : outputs) {
      require(of_rank.size() == inputs.size(), "all_gather_coalesced: a list for a rank has another number of tensors");
      for (std::size_t i = 0; i < inputs.size(); ++i) by_input[i].push_back(of_rank[i]);
    }
    return allgather_coalesced_of(OpType::ALLGATHER_COALESCED, by_input, inputs);
  }

  Pointer _allgather_base(Tensor& output, Tensor& input, c10d::AllgatherOptions const&) override {
    return allgather_into(OpType::_ALLGATHER_BASE, {output}, {input});
  }

  Pointer allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, c10d::AllgatherOptions const&) override {
    return allgather_into(OpType::COALESCED, outputs, inputs);
  }

  Pointer gather(std::vector<Tensors>& outputs, Tensors& inputs, c10d::GatherOptions const& options) override {
    return run([&] {
      auto const& input = only(inputs, "gather");
      bool const is_root = getRank() == options.rootRank;
      if (is_root) require_one_per_rank(outputs, "gather");
      auto work = exchange(OpType::GATHER, "a gather", is_root ? outputs.front() : Tensors());
      if (!is_root) {
        work->post(int(options.rootRank), Contiguous(input, Use::read));
        return work;
      }
      for (int rank = 0; rank < getSize(); ++rank) take_one(*work, rank, outputs.front()[std::size_t(rank)], input);
      return work;
    });
  }

  Pointer scatter(Tensors& outputs, std::vector<Tensors>& inputs, c10d::ScatterOptions const& options) override {
    return run([&] {
      auto const& output = only(outputs, "scatter");
      bool const is_root = getRank() == options.rootRank;
      if (is_root) require_one_per_rank(inputs, "scatter");
      auto work = exchange(OpType::SCATTER, "a scatter", outputs);
      if (!is_root) {
        take_one(*work, int(options.rootRank), output, output);
        return work;
      }
      for (int rank = 0; rank < getSize(); ++rank) {
        auto const& input = inputs.front()[std::size_t(rank)];
        if (rank != getRank())
          work->post(rank, Contiguous(input, Use::read));
        else
          work->at_end([output, input] { output.copy_(input); });
      }
      return work;
    });
  }

  Pointer reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         c10d::ReduceScatterOptions const& options) override {
    return run([&] {
      auto const& output = only(outputs, "reduce_scatter");
      require_one_per_rank(inputs, "reduce_scatter");
      require_summable(output, inputs.front(), options.reduceOp.op_);
      auto work = exchange(OpType::REDUCE_SCATTER, "a reduce-scatter", outputs);
      Tensors terms;
      for (int rank = 0; rank < getSize(); ++rank) {
        auto const& input = inputs.front()[std::size_t(rank)];
        if (rank != getRank()) work->post(rank, Contiguous(input, Use::read));
        terms.push_back(rank == getRank() ? detached_copy(input) : received(*work, rank, output));
      }
      sum_at_end(*work, output, terms, options.reduceOp.op_);
      return work;
    });
  }

  Pointer _reduce_scatter_base(Tensor& output, Tensor& input, c10d::ReduceScatterOptions const& options) override {
    return reduce_scatter_of(OpType::_REDUCE_SCATTER_BASE, {output}, {input}, options);
  }

  Pointer reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          c10d::ReduceScatterOptions const& options) override {
    return reduce_scatter_of(OpType::COALESCED, outputs, inputs, options);
  }

  Pointer alltoall_base(Tensor& output, Tensor& input, std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes, c10d::AllToAllOptions const&) override {
    return run([&] {
      require(output.scalar_type() == input.scalar_type(), "all_to_all_single: input and output have different types");
      auto const sent = parts_of(input, input_sizes, getSize(), "all_to_all_single: input");
      auto const taken = parts_of(output, output_sizes, getSize(), "all_to_all_single: output");
      auto const own = std::size_t(getRank());
      require(sent[own].second == taken[own].second, "all_to_all_single: a rank's part for itself has different sizes");
      auto work = exchange(OpType::ALLTOALL_BASE, "an all-to-all", {output});
      Contiguous const from(input, Use::read);
      Contiguous const to(output, Use::written);
      for (int rank = 0; rank < getSize(); ++rank) {
        auto const [from_begin, from_bytes] = sent[std::size_t(rank)];
        auto const [to_begin, to_bytes] = taken[std::size_t(rank)];
        if (rank != getRank()) {
          work->post(rank, from, from_begin, from_bytes);
          work->take(rank, to, to_begin, to_bytes);
          continue;
        }
        std::copy_n(from.data() + from_begin, from_bytes, to.data() + to_begin);
      }
      work->at_end([to] { to.finish(); });
      return work;
    });
  }

  Pointer alltoall(Tensors& outputs, Tensors& inputs, c10d::AllToAllOptions const&) override {
    return run([&] {
      require(int(outputs.size()) == getSize() && int(inputs.size()) == getSize(),
              "all_to_all takes one tensor per rank");
      auto work = exchange(OpType::ALLTOALL, "an all-to-all", outputs);
      for (int rank = 0; rank < getSize(); ++rank) {
        auto const& input = inputs[std::size_t(rank)];
        if (rank != getRank()) work->post(rank, Contiguous(input, Use::read));
        take_one(*work, rank, outputs[std::size_t(rank)], input);
      }
      return work;
    });
  }

  Pointer send(Tensors& tensors, int to, int tag) override {
    return message(OpType::SEND, "a message to leave", tensors, "send", to, tag);
  }

  Pointer recv(Tensors& tensors, int from, int tag) override {
    return message(OpType::RECV, "a message", tensors, "recv", from, tag);
  }

  Pointer recvAnysource(Tensors& tensors, int tag) override {
    return message(OpType::RECVANYSOURCE, "a message of any rank", tensors, "recv", -1, tag);
  }

  Pointer barrier(c10d::BarrierOptions const&) override {
    return run([&] {
      return c10::make_intrusive<SumWork>(state_, OpType::BARRIER, "a barrier", Tensors{at::zeros({1}, at::kLong)},
                                          c10d::ReduceOp::SUM, Tensors());
    });
  }

 private:
  /// Makes a call and begins it.
  template <class Make>
  Pointer run(Make const& make) {
    std::scoped_lock const lock(state_->mutex);
    state_->require_usable();
    RawTensors const raw;
    ++num_calls_;
    return state_->begin(make());
  }

  Pointer message(OpType type, char const* name, Tensors const& tensors, char const* call, int peer, int tag) {
    return run(
        [&] { return c10::make_intrusive<MessageWork>(state_, type, name, only(tensors, call), peer, valid(tag)); });
  }

  c10::intrusive_ptr<ExchangeWork> exchange(OpType type, char const* name, Tensors const& results) {
    return c10::make_intrusive<ExchangeWork>(state_, type, name, results);
  }

  static Tensor detached_copy(Tensor const& tensor) {
    return tensor.resolve_conj().resolve_neg().clone(at::MemoryFormat::Contiguous);
  }

  void require_one_per_rank(std::vector<Tensors> const& lists, char const* what) const {
    if (lists.size() != 1 || int(lists.front().size()) != getSize())
      throw Error("BadArgument", std::string(what) + " takes a list of one tensor per rank");
  }

  /// What `rank` sends, or for this rank `own`, in `output`.
  void take_one(ExchangeWork& work, int rank, Tensor const& output, Tensor const& own) const {
    require(output.scalar_type() == own.scalar_type(), "tensors of one call have different types");
    if (rank == getRank()) {
      require(output.numel() == own.numel(), "a rank's own tensor has " + std::to_string(own.numel()) +
                                                 " elements, and its place " + std::to_string(output.numel()));
      work.at_end([output, own] { output.copy_(own.reshape(output.sizes())); });
      return;
    }
    Contiguous const values(output, Use::written);
    work.take(rank, values);
    work.at_end([values] { values.finish(); });
  }

  Pointer sum_of(OpType type, char const* name, Tensors const& tensors, c10d::ReduceOp const& op) {
    return run([&] { return c10::make_intrusive<SumWork>(state_, type, name, tensors, op.op_, tensors); });
  }

  Pointer allgather_coalesced_of(OpType type, std::vector<Tensors> const& outputs, Tensors const& inputs) {
    return run([&] {
      require(outputs.size() == inputs.size(), "all_gather takes a list of outputs for each input");
      Tensors results;
      for (auto const& list : outputs) results.insert(results.end(), list.begin(), list.end());
      auto work = exchange(type, "an all-gather", results);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        require(int(outputs[i].size()) == getSize(), "all_gather takes one output per rank");
        Contiguous const input(inputs[i], Use::read);
        for (int rank = 0; rank < getSize(); ++rank) {
          if (rank != getRank()) work->post(rank, input);
          take_one(*work, rank, outputs[i][std::size_t(rank)], inputs[i]);
        }
      }
      return work;
    });
  }

  Pointer allgather_into(OpType type, Tensors const& outputs, Tensors const& inputs) {
    return run([&] {
      require(outputs.size() == inputs.size(), "all_gather_into_tensor takes an output for each input");
      auto work = exchange(type, "an all-gather", outputs);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        Contiguous const input(inputs[i], Use::read);
        Contiguous const output(outputs[i], Use::written);
        require(output.tensor().scalar_type() == input.tensor().scalar_type() &&
                    output.bytes() == input.bytes() * getSize(),
                "all_gather_into_tensor: an output of " + std::to_string(outputs[i].numel()) + " elements for " +
                    std::to_string(getSize()) + " times " + std::to_string(inputs[i].numel()) + " of the same type");
        for (int rank = 0; rank < getSize(); ++rank) {
          auto const begin = rank * input.bytes();
          if (rank == getRank()) {
            // FSDP's input is this very part of its output.
            if (output.data() + begin != input.data()) std::copy_n(input.data(), input.bytes(), output.data() + begin);
            continue;
          }
          work->post(rank, input);
          work->take(rank, output, begin, input.bytes());
        }
        work->at_end([output] { output.finish(); });
      }
      return work;
    });
  }

  /// Memory for the values of `rank`, as many as `like` has.
  static Tensor received(ExchangeWork& work, int rank, Tensor const& like) {
    Contiguous const values(at::empty(like.sizes(), like.options().memory_format(at::MemoryFormat::Contiguous)),
                            Use::written);
    work.take(rank, values);
    return values.memory();
  }

  /// Before the first message, so that the group stays usable. Only the part of this rank has the size of its output.
  void require_summable(Tensor const& output, Tensors const& parts, c10d::ReduceOp::RedOpType op) const {
    Combination{op, output.scalar_type(), getSize()}.require_possible();
    for (auto const& part : parts)
      require(part.scalar_type() == output.scalar_type(), "reduce_scatter: parts and output have different types");
    auto const& own = parts[std::size_t(getRank())];
    require(own.numel() == output.numel(), "reduce_scatter: a part of " + std::to_string(own.numel()) +
                                               " elements for an output of " + std::to_string(output.numel()));
  }

  /// In order of ranks.
  void sum_at_end(ExchangeWork& work, Tensor const& output, Tensors const& terms, c10d::ReduceOp::RedOpType op) const {
    Combination const combination{op, output.scalar_type(), getSize()};
    Contiguous const result(output, Use::written);
    work.at_end([combination, terms, result] {
      std::vector<std::byte*> places;
      for (auto const& term : terms) places.push_back(static_cast<std::byte*>(term.mutable_data_ptr()));
      auto* const to = result.data();
      combination({0, result.memory().numel(), places, std::span(&to, 1)}, result.memory().element_size());
      result.finish();
    });
  }

  Pointer reduce_scatter_of(OpType type, Tensors const& outputs, Tensors const& inputs,
                            c10d::ReduceScatterOptions const& options) {
    return run([&] {
      require(outputs.size() == inputs.size(), "reduce_scatter_tensor takes an output for each input");
      for (auto const& output : outputs)
        Combination{options.reduceOp.op_, output.scalar_type(), getSize()}.require_possible();
      auto work = exchange(type, "a reduce-scatter", outputs);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        Contiguous const input(inputs[i], Use::read);
        auto const bytes = Index(outputs[i].nbytes());
        require(outputs[i].scalar_type() == inputs[i].scalar_type() && input.bytes() == bytes * getSize(),
                "reduce_scatter_tensor: an input of " + std::to_string(inputs[i].numel()) + " elements for " +
                    std::to_string(getSize()) + " outputs of " + std::to_string(outputs[i].numel()) +
                    " of the same type");
        Tensors terms;
        for (int rank = 0; rank < getSize(); ++rank) {
          if (rank != getRank()) work->post(rank, input, rank * bytes, bytes);
          // A copy: the output may be a part of the input.
          terms.push_back(
              rank == getRank()
                  ? input.memory().flatten().narrow(0, rank * outputs[i].numel(), outputs[i].numel()).clone()
                  : received(*work, rank, outputs[i]));
        }
        sum_at_end(*work, outputs[i], terms, options.reduceOp.op_);
      }
      return work;
    });
  }

  static int valid(int tag) {
    void* bound = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&bound), &found), "MPI_Comm_get_attr");
    int const largest = found != 0 ? *static_cast<int*>(bound) : 32767;
    if (tag < 0 || tag > largest)
      throw Error("BadArgument", "tag must be in [0, " + std::to_string(largest) + "], got " + std::to_string(tag));
    return tag;
  }

  std::shared_ptr<GroupState> state_;
  std::uint64_t num_calls_ = 0;
};

/// Makes groups of the ranks of a communicator, which are those of torch.distributed.
struct GroupMaker {
  /// Of all ranks of MPI; not collective.
  GroupMaker() {
    check_mpi(MPI_Comm_rank(base, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(base, &num_ranks), "MPI_Comm_size");
  }
  /// Collective.
  explicit GroupMaker(std::int64_t handle)
      : own(comm_of(handle)), base(own->handle()), rank(own->rank()), num_ranks(own->num_ranks()) {}

  /// Collective over the ranks of the group alone. @param ranks all ranks where it is empty
  c10::intrusive_ptr<c10d::Backend> make(std::vector<int> const& ranks, std::string const& name, double timeout) const {
    if (ranks.empty()) return make_on(base, timeout);
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group some = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    check_mpi(MPI_Comm_group(base, &all), "MPI_Comm_group");
    check_mpi(MPI_Group_incl(all, int(ranks.size()), ranks.data(), &some), "MPI_Group_incl");
    int const tag = int(Hash().add(std::string_view(name)).value() % 32767U);
    check_mpi(MPI_Comm_create_group(base, some, tag, &comm), "MPI_Comm_create_group");
    check_mpi(MPI_Group_free(&all), "MPI_Group_free");
    check_mpi(MPI_Group_free(&some), "MPI_Group_free");
    auto group = make_on(comm, timeout);
    check_mpi(MPI_Comm_free(&comm), "MPI_Comm_free");
    return group;
  }

  [[nodiscard]] Comm const& comm() const { return own.value(); }

  std::optional<Comm> own;
  MPI_Comm base = MPI_COMM_WORLD;
  int rank = 0;
  int num_ranks = 1;

 private:
  static c10::intrusive_ptr<c10d::Backend> make_on(MPI_Comm comm, double timeout) {
    Comm const collectives(comm);
    return c10::make_intrusive<Group>(std::make_shared<GroupState>(collectives, Comm(collectives.handle()), timeout));
  }
};

}  // namespace

void define_process_groups(py::module_& m) {
  py::class_<GroupMaker>(m, "GroupMaker")
      .def(py::init<>())
      .def(py::init<std::int64_t>(), py::arg("comm"), ReleaseGil())
      .def_readonly("rank", &GroupMaker::rank)
      .def_readonly("num_ranks", &GroupMaker::num_ranks)
      .def_property_readonly("on_one_node", [](GroupMaker const& self) { return self.comm().num_nodes() == 1; })
      .def_property_readonly("handle", [](GroupMaker const& self) { return MPI_Comm_c2f(self.base); })
      .def("make", &GroupMaker::make, py::arg("ranks"), py::arg("name"), py::arg("timeout"), ReleaseGil())
      .def(
          "agree",
          [](GroupMaker const& self, std::string const& rule, std::optional<std::string> const& failure) {
            run_agreed(self.comm(), [&] {
              if (failure) throw Error(rule, *failure);
            });
          },
          py::arg("rule"), py::arg("failure"), ReleaseGil())
      .def(
          "broadcast", [](GroupMaker const& self, std::string const& text) { return self.comm().broadcast(text, 0); },
          py::arg("text"), ReleaseGil());
}

}  // namespace graticule::python
