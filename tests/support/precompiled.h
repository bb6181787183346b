// Includes src/precompiled.h and the headers that nearly every test includes.
#include <gtest/gtest.h>

#include "src/precompiled.h"
