#include "src/reducer/reducer_spec.h"

#include <algorithm>

#include "src/api/api_guard.h"
#include "src/api/comm_internal.h"
#include "src/reducer/call_queue.h"

namespace bps::reducer {
namespace {

Result<std::vector<Parameter>> checkedParameters(const ReducerArguments& args) {
  if (args.parameters == 0 || args.parameters > UINT32_MAX)
    return badArgument("nparams is {}, expected 1 to {}", args.parameters, UINT32_MAX);
  if (args.counts == nullptr || args.types == nullptr)
    return badArgument("{} is NULL", args.counts == nullptr ? "counts" : "types");
  std::vector<Parameter> parameters;
  size_t bytes = 0;
  for (size_t i = 0; i < args.parameters; ++i) {
    if (static_cast<int>(args.types[i]) < 0 || args.types[i] >= bpsNumTypes)
      return badArgument("types[{}] is {}, expected 0 to {}", i, static_cast<int>(args.types[i]), bpsNumTypes - 1);
    const Parameter parameter{args.counts[i], static_cast<DataType>(args.types[i])};
    if (parameter.count > (SIZE_MAX / 16 - bytes) / elementBytes(parameter.type))
      return badArgument("counts[{}] is {}, too large", i, parameter.count);
    bytes += parameter.bytes();
    parameters.push_back(parameter);
  }
  return parameters;
}

Result<bpsReducerConfig_t> checkedConfig(const bpsReducerConfig_t* config) {
  if (config == nullptr) return bpsReducerConfig_t BPS_REDUCER_CONFIG_INITIALIZER;
  if (config->size < sizeof *config) return badArgument("config was not started from BPS_REDUCER_CONFIG_INITIALIZER");
  if (config->op != bpsAvg && config->op != bpsSum)
    return badArgument("config.op is {}, expected bpsAvg or bpsSum", static_cast<int>(config->op));
  if ((config->urgentBytes > 0) != (config->urgentComm != nullptr))
    return badArgument("config.urgentComm and config.urgentBytes must be set together");
  return *config;
}

// Checks that all communicators have as many ranks as the first one, and that none occurs twice.
Status checkComms(const std::vector<bpsComm_t>& comms) {
  int first = 0;
  BPS_TRY(fromApi(bpsCommCount(comms.front(), &first)));
  for (size_t i = 1; i < comms.size(); ++i) {
    int count = 0;
    BPS_TRY(fromApi(bpsCommCount(comms[i], &count)));
    if (count != first)
      return badArgument("communicator {} has {} ranks, communicator 0 has {}: all need the same ranks", i, count,
                         first);
    if (std::find(comms.begin(), comms.begin() + static_cast<std::ptrdiff_t>(i), comms[i]) !=
        comms.begin() + static_cast<std::ptrdiff_t>(i))
      return badArgument("communicator {} occurs twice", i);
  }
  return {};
}

}  // namespace

Result<ReducerSpec> checkedSpec(const ReducerArguments& args, const bpsReducerConfig_t* config) {
  ReducerSpec spec;
  spec.parameters = BPS_TRY(checkedParameters(args));
  const bpsReducerConfig_t settings = BPS_TRY(checkedConfig(config));
  if (args.comms == 0 || args.list == nullptr)
    return badArgument("{}", args.comms == 0 ? "ncomms is 0" : "comms is NULL");
  spec.comms.assign(args.list, args.list + args.comms);
  if (settings.urgentComm != nullptr) spec.comms.push_back(settings.urgentComm);
  BPS_TRY(checkComms(spec.comms));
  spec.limits = {settings.firstBucketBytes, settings.bucketBytes, args.comms, settings.urgentBytes};
  spec.views = settings.gradientsAreViews != 0;
  spec.findUnused = settings.findUnusedParameters != 0;
  spec.hasDevice = BPS_TRY(commHasDevice(spec.comms.front()));
  spec.op = settings.op;
  return spec;
}

}  // namespace bps::reducer
