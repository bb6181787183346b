#include "src/server/served_job.h"

#include <algorithm>

namespace bps {

Result<std::unique_ptr<ServedJob>> ServedJob::create(const Env& env, const JobSpec& spec, const JobPlan& plan) {
  std::unique_ptr<ServedJob> job(new ServedJob(env, spec, plan));
  job->plugin_ = BPS_TRY(net::Plugin::load(env.netPlugin, spec.roster.jobId));
  const net::MeshShape shape{spec.endpoint, spec.roster.machines.size(), plan.owners};
  job->mesh_ = std::make_unique<net::Mesh>(BPS_TRY(net::Mesh::listen(*job->plugin_, 0, shape)));
  job->closed_.resize(spec.roster.machines.size());
  return job;
}

Status ServedJob::setPeerHandles(const std::vector<Blob>& handles) {
  BPS_TRY(mesh_->setPeerHandles(handles));
  state_ = State::kConnecting;
  return {};
}

Status ServedJob::build() {
  if (!plan_.owners[spec_.endpoint]) return {};
  const size_t machines = spec_.roster.machines.size();
  std::vector<SumService::Lane> lanes(machines);
  for (size_t m = 0; m < machines; ++m) {
    net::Link link = mesh_->take(m);
    lanes[m] = {std::move(link.pushIn), std::move(link.answerOut)};
  }
  ServiceSpec spec;
  spec.machines = machines;
  spec.first = (spec_.endpoint + 1) % machines;
  spec.depth = plan_.depth;
  spec.maxChunkBytes = plan_.limits.maxChunkBytes;
  spec.ranks = spec_.roster.ranks.size();
  spec.reduceThreads = env_.reduceThreads;
  spec.patience = std::chrono::milliseconds(spec_.roster.settings.timeoutMs);
  spec.nameOf = [this](size_t machine) { return spec_.roster.endpointName(machine); };
  service_ = BPS_TRY(SumService::create(std::move(spec), std::move(lanes)));
  return {};
}

Result<ServedJob::Step> ServedJob::step() {
  if (state_ == State::kListening) return Step::kIdle;
  if (state_ == State::kServing) return serve();
  Result<Progress> progress = mesh_->step();
  if (!progress.ok())
    return std::move(progress).status().within("connecting with " + spec_.roster.endpointName(mesh_->current()));
  if (std::move(progress).value() == Progress::kPending) return Step::kIdle;
  BPS_TRY(build());
  mesh_.reset();
  state_ = State::kServing;
  return Step::kConnected;
}

Result<ServedJob::Step> ServedJob::serve() {
  if (service_ == nullptr) return finishing_ ? Step::kEnded : Step::kIdle;  // no share
  Result<bool> outcome = service_->step();
  // Many transports do not tell that a worker has closed its lanes, so that is not waited for.
  if (finishing_ && !service_->active()) return Step::kEnded;
  if (outcome.ok()) return std::move(outcome).value() ? Step::kMoved : Step::kIdle;
  const std::optional<size_t> culprit = service_->culprit();
  if (!culprit) return std::move(outcome).status();
  if (!closed_[*culprit]) lost_ = Lost{*culprit, outcome.error().message()};
  closed_[*culprit] = true;
  const bool all = std::all_of(closed_.begin(), closed_.end(), [](bool closed) { return closed; });
  return all ? Step::kEnded : Step::kIdle;
}

void ServedJob::forEachComm(const std::function<void(net::Comm&)>& use) {
  if (service_ != nullptr) service_->forEachComm(use);
}

}  // namespace bps
