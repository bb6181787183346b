// src/precompiled.h, and what nearly every test includes.
#include <gtest/gtest.h>

#include "src/precompiled.h"
