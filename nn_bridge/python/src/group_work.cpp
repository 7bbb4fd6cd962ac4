// SPDX-License-Identifier: BSD-3-Clause
#include "group_work.hpp"

#include <graticule/partition/detail/check_mpi.hpp>
#include <graticule/partition/detail/end.hpp>

namespace graticule::python {

namespace {

using Op = c10d::ReduceOp::RedOpType;

/// Elements that are combined at a time, so that they stay in a cache.
constexpr Index block_numel = Index(1) << 15U;

std::string text_of(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (std::exception const& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

bool is_of_peer(std::exception_ptr const& error) {
  try {
    std::rethrow_exception(error);
  } catch (Error const& known) {
    return known.rule() == "PeerFailed";
  } catch (...) {
    return false;
  }
}

void combine(at::Tensor& sum, at::Tensor const& term, Op op) {
  switch (op) {
    case Op::SUM:
    case Op::AVG: sum.add_(term); break;
    case Op::PRODUCT: sum.mul_(term); break;
    case Op::MIN: at::minimum_out(sum, sum, term); break;
    case Op::MAX: at::maximum_out(sum, sum, term); break;
    case Op::BAND: sum.bitwise_and_(term); break;
    case Op::BOR: sum.bitwise_or_(term); break;
    default: sum.bitwise_xor_(term); break;
  }
}

}  // namespace

GroupState::GroupState(Comm collectives, Comm direct, double longest_wait_seconds)
    : comms{std::move(collectives), std::move(direct)}, longest_wait(longest_wait_seconds) {
  sum.emplace(comm(), line_bytes);
  messages::OrderedSum::share_on_node(comm(), {{&*sum, piece_bytes / line_bytes}});
}

GroupState::~GroupState() { detail::forget_work(this); }

void GroupState::require_usable() const {
  if (failure) std::rethrow_exception(failure);
  if (comms.empty()) throw Error("WrongState", "the process group was destroyed");
  if (detail::mpi_is_over()) throw Error("WrongState", "a call of a process group after the end of MPI");
}

c10::intrusive_ptr<c10d::Work> GroupState::begin(c10::intrusive_ptr<GroupWork> work) {
  std::scoped_lock const lock(mutex);
  under_way.push_back(work);
  if (!proceed()) detail::work_while_waiting(this, [this] { return proceed(); });
  return work;
}

bool GroupState::proceed() noexcept {
  std::scoped_lock const lock(mutex);
  try {
    RawTensors const raw;
    for (auto it = under_way.begin(); it != under_way.end();) {
      auto const work = *it;
      if (!work->proceed_here()) {
        ++it;
        continue;
      }
      it = under_way.erase(it);
      work->complete(nullptr);
    }
  } catch (...) {
    fail(std::current_exception());
  }
  return under_way.empty();
}

void GroupState::fail(std::exception_ptr const& error) noexcept {
  std::scoped_lock const lock(mutex);
  if (!failure) failure = error;
  sums.clear();
  for (auto const& work : under_way) {
    detail::keep_for_good(work->memory());
    work->complete(failure);
  }
  under_way.clear();
  if (is_of_peer(error) || comms.empty() || detail::mpi_is_over()) return;
  try {
    announce_failure(comms, text_of(error));
  } catch (...) {  // NOLINT(bugprone-empty-catch): the other ranks then report the wait themselves.
  }
}

void GroupState::close() noexcept {
  if (comms.empty() || detail::mpi_is_over()) return;
  auto const begin = std::chrono::steady_clock::now();
  auto const is_late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > detail::seconds_to_end();
  };
  while (!proceed() && !is_late()) detail::leave_core();
  std::scoped_lock const lock(mutex);
  if (!under_way.empty())
    fail(std::make_exception_ptr(Error("WrongState", "the process group was destroyed before its calls had ended")));
  detail::forget_work(this);
  sum.reset();
  comms.clear();
}

GroupWork::GroupWork(std::shared_ptr<GroupState> state, c10d::OpType type, char const* name,
                     std::vector<at::Tensor> results)
    : Work(state->comm().rank(), type), state_(std::move(state)), name_(name), results_(std::move(results)) {}

bool GroupWork::isCompleted() {
  if (!c10d::Work::isCompleted()) state_->proceed();
  return c10d::Work::isCompleted();
}

bool GroupWork::wait(std::chrono::milliseconds timeout) {
  if (!isCompleted()) {
    double const limit = timeout.count() > 0 ? double(timeout.count()) / 1e3 : state_->longest_wait;
    auto const begin = std::chrono::steady_clock::now();
    auto const comm = state_->comm();
    auto const describe = [&] { return "rank " + std::to_string(comm.rank()) + " waits for " + name_; };
    try {
      messages::wait_until(
          comm,
          [&] {
            if (isCompleted()) return true;
            double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            if (seconds > limit)
              throw Error("StalledExchange",
                          describe() + ", longer than the timeout of " + std::to_string(limit) + " s");
            return false;
          },
          describe);
    } catch (...) {
      state_->fail(std::current_exception());
    }
  }
  if (auto const error = exception()) std::rethrow_exception(error);
  return true;
}

c10::intrusive_ptr<c10::ivalue::Future> GroupWork::getFuture() {
  if (future_) return future_;
  future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  try {
    wait(kNoTimeout);
    future_->markCompleted(c10::IValue(results_));
  } catch (...) {
    future_->setError(std::current_exception());
  }
  return future_;
}

Contiguous::Contiguous(at::Tensor tensor, Use use) : tensor_(std::move(tensor)) {
  RawTensors const raw;
  if (tensor_.layout() != at::kStrided || !tensor_.is_cpu())
    throw Error("UnsupportedTensor",
                std::string("the back end 'graticule' takes dense tensors of the host, not one of ") +
                    c10::toString(tensor_.scalar_type()) + " on " + tensor_.device().str() +
                    (tensor_.layout() == at::kStrided ? "" : " that is sparse") +
                    "; for devices: init_process_group(backend='cpu:graticule,cuda:nccl')");
  bool const is_plain = tensor_.is_contiguous() && !tensor_.is_conj() && !tensor_.is_neg();
  if (is_plain)
    memory_ = tensor_.detach();
  else if (use == Use::written)
    memory_ = at::empty(tensor_.sizes(), tensor_.options());
  else
    memory_ = tensor_.resolve_conj().resolve_neg().contiguous();
  if (!is_plain && memory_.is_same(tensor_)) memory_ = tensor_.clone(at::MemoryFormat::Contiguous);
}

void Contiguous::finish() const {
  if (memory_.const_data_ptr() != tensor_.const_data_ptr()) tensor_.copy_(memory_);
}

void Combination::require_possible() const {
  bool const is_bitwise = op == Op::BAND || op == Op::BOR || op == Op::BXOR;
  bool const is_ordered = op == Op::MIN || op == Op::MAX;
  if (op > Op::BXOR && op != Op::AVG) throw Error("Unsupported", "the back end 'graticule' has no premultiplied sums");
  bool const is_wide_unsigned = type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64;
  if ((is_bitwise && !c10::isIntegralType(type, true)) || (is_ordered && c10::isComplexType(type)) ||
      (is_wide_unsigned && !is_bitwise) || (type == at::kBool && op == Op::AVG) || c10::isQIntType(type) ||
      c10::isFloat8Type(type))
    throw Error("UnsupportedTensor",
                std::string("values of ") + c10::toString(type) + " cannot be combined over ranks by this operation");
}

void Combination::operator()(messages::SumPart const& part, Index value_bytes) const {
  RawTensors const raw;
  auto const bytes = Index(c10::elementSize(type));
  auto const numel = part.count * value_bytes / bytes;
  auto const sums = at::empty({std::min(numel, block_numel)}, nn::detail::type_of_sums(type));
  for (Index begin = 0; begin < numel; begin += block_numel) {
    auto const count = std::min(block_numel, numel - begin);
    auto const block = [&](std::byte* values) { return at::from_blob(values + begin * bytes, {count}, type); };
    auto sum = sums.narrow(0, 0, count);
    sum.copy_(block(part.terms[0]));
    for (std::size_t rank = 1; rank < part.terms.size(); ++rank) combine(sum, block(part.terms[rank]), op);
    if (op == Op::AVG && c10::isIntegralType(type, true))
      sum.div_(num_ranks, "trunc");
    else if (op == Op::AVG)
      sum.div_(num_ranks);
    for (auto* const result : part.results) block(result).copy_(sum);
  }
}

ExchangeWork::ExchangeWork(std::shared_ptr<GroupState> given, c10d::OpType type, char const* name,
                           std::vector<at::Tensor> results)
    : GroupWork(std::move(given), type, name, std::move(results)), lanes_(state().comm()) {}

void ExchangeWork::post(int to, Contiguous const& values, Index begin, Index bytes) {
  kept_.push_back(values.memory());
  lanes_.post(to, values.data() + begin, bytes);
}

void ExchangeWork::take(int from, Contiguous const& values, Index begin, Index bytes) {
  kept_.push_back(values.memory());
  lanes_.take(from, values.data() + begin, bytes);
}

bool ExchangeWork::proceed_here() {
  if (!lanes_.test()) return false;
  for (auto const& action : actions_) action();
  actions_.clear();
  kept_.clear();
  return true;
}

SumWork::SumWork(std::shared_ptr<GroupState> given, c10d::OpType type, char const* name,
                 std::vector<at::Tensor> const& tensors, Op op, std::vector<at::Tensor> results)
    : GroupWork(std::move(given), type, name, std::move(results)), op_(op) {
  for (auto const& tensor : tensors) {
    Combination{op, tensor.scalar_type(), state().comm().num_ranks()}.require_possible();
    values_.emplace_back(tensor, Contiguous::Use::both);
  }
  state().sums.push_back(this);
}

void SumWork::start_piece() {
  auto const& values = values_[current_];
  auto& sum = *state().sum;
  piece_ = std::min(values.bytes() - done_, piece_bytes);
  auto const lines = (piece_ + line_bytes - 1) / line_bytes;
  auto* from = values.data() + done_;
  if (piece_ % line_bytes != 0) {
    padded_ = at::zeros({lines * line_bytes}, at::kByte);
    auto* const copy = static_cast<std::byte*>(padded_.mutable_data_ptr());
    std::copy_n(from, piece_, copy);
    from = copy;
  }
  Combination const combination{op_, values.memory().scalar_type(), state().comm().num_ranks()};
  sum.start(from, lines, [combination](messages::SumPart const& part) { combination(part, line_bytes); });
  running_ = true;
}

bool SumWork::proceed_here() {
  if (state().sums.front() != this) return false;
  for (; current_ < values_.size(); ++current_, done_ = 0) {
    auto const& values = values_[current_];
    while (done_ < values.bytes()) {
      if (!running_) start_piece();
      if (!state().sum->advance()) return false;
      running_ = false;
      if (padded_.defined())
        std::copy_n(static_cast<std::byte const*>(padded_.const_data_ptr()), piece_, values.data() + done_);
      padded_.reset();
      done_ += piece_;
    }
    values.finish();
  }
  state().sums.pop_front();
  if (action_) action_();
  return true;
}

std::vector<at::Tensor> SumWork::memory() const {
  std::vector<at::Tensor> all;
  for (auto const& values : values_) all.push_back(values.memory());
  if (padded_.defined()) all.push_back(padded_);
  return all;
}

BroadcastWork::BroadcastWork(std::shared_ptr<GroupState> given, char const* name, at::Tensor const& tensor, int root)
    : GroupWork(std::move(given), c10d::OpType::BROADCAST, name, {tensor}),
      values_(tensor, state().comm().rank() == root ? Contiguous::Use::read : Contiguous::Use::written),
      lanes_(state().comm()) {
  int const num_ranks = state().comm().num_ranks();
  int const own = (state().comm().rank() - root + num_ranks) % num_ranks;
  int step = 1;
  while (step < num_ranks && (own & step) == 0) step *= 2;
  if (own != 0) lanes_.take((own - step + root) % num_ranks, values_.data(), values_.bytes());
  for (step /= 2; step > 0; step /= 2)
    if (own + step < num_ranks) children_.push_back((own + step + root) % num_ranks);
}

bool BroadcastWork::proceed_here() {
  if (!lanes_.test()) return false;
  if (!passed_on_) {
    passed_on_ = true;
    for (int const child : children_) lanes_.post(child, values_.data(), values_.bytes());
    if (!lanes_.test()) return false;
  }
  values_.finish();
  return true;
}

MessageWork::MessageWork(std::shared_ptr<GroupState> given, c10d::OpType type, char const* name,
                         at::Tensor const& tensor, int peer, int tag)
    : GroupWork(std::move(given), type, name, {tensor}),
      sends_(type == c10d::OpType::SEND),
      values_(tensor, sends_ ? Contiguous::Use::read : Contiguous::Use::written),
      peer_(peer),
      tag_(tag) {
  if (!sends_ && (peer_ >= 0 || values_.bytes() > 0)) return;
  if (!sends_) throw Error("Unsupported", "an empty tensor from any rank: nothing is sent");
  lanes_.emplace(state().comms[1], tag_);
  lanes_->post(peer_, values_.data(), values_.bytes());
}

// A message that arrives between two probes would be seen by the later call alone.
bool MessageWork::is_for_an_earlier_call(int from) const {
  for (auto const& call : state().under_way) {
    if (call.get() == this) break;
    auto const* const earlier = dynamic_cast<MessageWork const*>(call.get());
    if (earlier != nullptr && !earlier->lanes_ && earlier->values_.bytes() > 0 && earlier->tag_ == tag_ &&
        (earlier->peer_ < 0 || earlier->peer_ == from))
      return true;
  }
  return false;
}

bool MessageWork::proceed_here() {
  if (!lanes_) {
    if (values_.bytes() > 0) {
      int has_come = 0;
      MPI_Status status;
      auto const& comm = state().comms[1];
      check_mpi(MPI_Iprobe(peer_ < 0 ? MPI_ANY_SOURCE : peer_, tag_, comm.handle(), &has_come, &status), "MPI_Iprobe");
      if (!has_come) return false;
      if (is_for_an_earlier_call(status.MPI_SOURCE)) return false;
      int bytes = 0;
      check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
      peer_ = status.MPI_SOURCE;
      // Longer ones come in several messages.
      if (Index const first = std::min(values_.bytes(), Index(1) << 30U); bytes != first)
        throw Error("ShapeMismatch", "rank " + std::to_string(peer_) + " of the group sends " + std::to_string(bytes) +
                                         " bytes with tag " + std::to_string(tag_) +
                                         ", and the tensor that receives them has " + std::to_string(values_.bytes()));
    }
    lanes_.emplace(state().comms[1], tag_);
    lanes_->take(peer_, values_.data(), values_.bytes());
  }
  if (!lanes_->test()) return false;
  values_.finish();
  return true;
}

}  // namespace graticule::python
