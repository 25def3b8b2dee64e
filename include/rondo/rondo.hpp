// SPDX-License-Identifier: MIT
// Everything a program needs.
#pragma once

#include "rondo/consumer.hpp"
#include "rondo/dead_letter.hpp"
#include "rondo/options.hpp"
#include "rondo/producer.hpp"
#include "rondo/queue.hpp"
#include "rondo/result.hpp"
#include "rondo/stats.hpp"
#include "rondo/types.hpp"
#include "rondo/version.hpp"
