// FabricSpec: the value of BPS_FABRIC, which describes a network in which most machines cannot reach each other.
//
//   bcube:n=3,k=2[,addresses=FILE][,address=DIGITS][,relay=PORT]
//   hypercube:k=3[,...]                                            the same as bcube:n=2,k=3
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/plan/bcube/bcube.h"

namespace bps {

struct FabricSpec {
  Bcube shape;
  std::string addressFile;  // empty: the addresses follow from the interfaces (fabric_place.h)
  std::string address;      // digits of this machine; empty: found by its IP addresses
  uint16_t relayPort = 0;   // where machines relay the control connections of neighbours; 0: they do not

  // "bcube:n=3,k=2", without the options that may differ between machines.
  std::string shapeText() const;
};

// Returns nothing if the text is empty. An error names the text and the accepted form.
Result<std::optional<FabricSpec>> parseFabric(const std::string& text);

}  // namespace bps
