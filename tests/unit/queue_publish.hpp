// SPDX-License-Identifier: MIT
// Copyright the rondo authors
//
// A queue with one producer and one consumer, for cases that run over one and many producers, shared and exclusive
// groups.
#pragma once

#include <string>
#include <utility>

#include "support/tmp_dir.hpp"
#include "unit/queue_basics.hpp"

namespace rondo::test {

/// Who publishes, and to what kind of group.
template <Producers P, GroupMode M>
struct Kind {
    static constexpr Producers producers = P;
    static constexpr GroupMode mode = M;
};
using OneShared = Kind<Producers::one, GroupMode::shared>;
using OneExclusive = Kind<Producers::one, GroupMode::exclusive>;
using ManyShared = Kind<Producers::many, GroupMode::shared>;
using ManyExclusive = Kind<Producers::many, GroupMode::exclusive>;
#define KINDS OneShared, OneExclusive, ManyShared, ManyExclusive

/// A queue with one group, one producer, one consumer.
template <class K>
struct Line {
    TmpDir dir;
    Queue queue;
    Producer producer;
    Consumer consumer;

    explicit Line(QueueOptions o = {}) : Line(std::move(o), std::string("producer")) {}
    Line(QueueOptions o, const std::string& producer_name)
        : queue(make(dir, o)),
          producer(queue.producer({.name = producer_name}).value()),
          consumer(queue.consumer("group", {.mode = K::mode, .start = Start::earliest()}).value()) {}

    static Queue make(const TmpDir& dir, QueueOptions o) {
        if (o.capacity_bytes == QueueOptions{}.capacity_bytes) o.capacity_bytes = small;
        o.producers = K::producers;
        return Queue::create(dir.str() + "/q", o).value();
    }
    Message next() { return consumer.try_receive().value(); }
    bool empty() {
        auto m = consumer.try_receive();
        return !m && m.error().code == Errc::empty;
    }
};

}  // namespace rondo::test
