// Compares the layer lists of the neural networks with the published numbers of parameters and with known shapes.
#include "perf/workload/model/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace bps::perf {
namespace {

std::vector<Parameter> parametersOf(std::string_view model) {
  auto parameters = modelParameters(model);
  EXPECT_TRUE(parameters.ok()) << parameters.error().message();
  return parameters.ok() ? std::move(parameters).value() : std::vector<Parameter>{};
}

TEST(Models, TotalsAreThePublishedOnes) {
  const std::map<std::string_view, uint64_t> totals = {
      {"lenet5", 61'706},     {"resnet50", 25'557'032},    {"vgg16", 138'357'544},
      {"vgg19", 143'667'240}, {"bert-large", 335'141'888}, {"gpt2", 124'439'808},
  };
  EXPECT_EQ(totals.size(), modelNames().size());
  for (std::string_view model : modelNames()) {
    ASSERT_TRUE(totals.contains(model)) << model;
    EXPECT_EQ(totalCount(parametersOf(model)), totals.at(model)) << model;
  }
}

TEST(Models, HaveThePublishedNumberOfTensors) {
  EXPECT_EQ(parametersOf("lenet5").size(), 10U);
  EXPECT_EQ(parametersOf("resnet50").size(), 161U);
  EXPECT_EQ(parametersOf("vgg16").size(), 32U);
  EXPECT_EQ(parametersOf("vgg19").size(), 38U);
  EXPECT_EQ(parametersOf("bert-large").size(), 391U);
  EXPECT_EQ(parametersOf("gpt2").size(), 148U);
}

TEST(Models, NamesDifferAndNoTensorIsEmpty) {
  for (std::string_view model : modelNames()) {
    std::set<std::string> names;
    for (const Parameter& parameter : parametersOf(model)) {
      EXPECT_TRUE(names.insert(parameter.name).second) << model << ": " << parameter.name;
      EXPECT_GT(parameter.count(), 0U) << model << ": " << parameter.name;
    }
  }
}

TEST(Models, TensorsComeInForwardOrder) {
  const auto resnet = parametersOf("resnet50");
  EXPECT_EQ(resnet.front().name, "conv1.weight");
  EXPECT_EQ(resnet.front().shape, (std::vector<uint64_t>{64, 3, 7, 7}));
  EXPECT_EQ(resnet.back().name, "fc.bias");
  const auto last = std::find_if(resnet.begin(), resnet.end(),
                                 [](const Parameter& p) { return p.name == "layer4.0.downsample.0.weight"; });
  ASSERT_NE(last, resnet.end());
  EXPECT_EQ(last->shape, (std::vector<uint64_t>{2048, 1024, 1, 1}));
}

TEST(Models, UnknownNameListsTheKnownOnes) {
  auto parameters = modelParameters("lenet");
  ASSERT_FALSE(parameters.ok());
  EXPECT_EQ(parameters.error().code(), Code::kInvalidArgument);
  for (std::string_view model : modelNames()) {
    EXPECT_NE(std::string_view(parameters.error().message()).find(model), std::string_view::npos) << model;
  }
}

}  // namespace
}  // namespace bps::perf
